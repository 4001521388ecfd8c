import {
  type Decimal,
  DECIMAL_PLACES,
  larger,
  nanosFromDecimal,
  signedFromNanos,
} from '../../model/decimal.ts';
import { divideHalfAway, minorUnit, shareOut } from '../../model/pricing/money.ts';
import type { Cost, CostRow } from './cost-sums.ts';
import { costAmounts } from './cost-totals.ts';

const GPUS = 'tenant_gpu_hours';
const TOKENS = 'tenant_inference_tokens';

/** What a tenant's GPUs cost for the tokens of one model (docs/how-to/costs.md#cost-of-tokens). */
export interface TokenCost {
  readonly tenant: string;
  readonly model: string;
  readonly currency: string;
  readonly tokens: Decimal;
  /** The model's share of the cost of the tenant's GPU hours. */
  readonly gpuCost: Cost;
  readonly gpuCostPerMillion: Decimal;
  /** Absent, like the margin, if some of the tokens have no price. */
  readonly pricePerMillion?: Decimal;
  /** The price of the tokens less `gpuCost`. */
  readonly margin?: Cost;
}

/**
 * Allocates the cost of each tenant's GPU hours to its models by tokens, as OpenCost does without
 * GPU time by model. The shares of a tenant add up to that cost, to the minor unit. Returns nothing
 * unless the rows are grouped by tenant and model, and nothing for a tenant that
 *
 * 1. has GPU hours without a price, no GPU hours, or no tokens;
 * 2. has costs in several currencies, or tokens in another unit.
 */
export function tokenCosts(
  groupBy: readonly string[],
  rows: readonly CostRow[],
): readonly TokenCost[] {
  const [tenantAt, modelAt] = [groupBy.indexOf('tenant'), groupBy.indexOf('model')];
  if (groupBy.length !== 2 || tenantAt < 0 || modelAt < 0) return [];
  const used = rows.filter(({ metric }) => metric === GPUS || metric === TOKENS);
  const byTenant = Map.groupBy(used, ({ keys }) => keys[tenantAt] ?? '');
  return [...byTenant].flatMap(([tenant, own]) =>
    costsOf(own).map((cost) => ({ tenant, model: cost.row.keys[modelAt] ?? '', ...cost.figures })),
  );
}

function costsOf(rows: readonly CostRow[]): readonly {
  readonly row: CostRow;
  readonly figures: Omit<TokenCost, 'tenant' | 'model'>;
}[] {
  const gpus = rows.filter(({ metric }) => metric === GPUS);
  const tokens = rows.filter(({ metric }) => metric === TOKENS);
  const [all] = costAmounts(gpus);
  const isClear =
    gpus.every(({ unpriced }) => unpriced === undefined) &&
    tokens.every(({ unit }) => unit === 'tokens') &&
    new Set(rows.map(({ currency }) => currency)).size === 1;
  // Corrections can leave less than nothing of a model.
  const used = tokens.map(({ quantity }) => larger(0n, nanosFromDecimal(quantity)));
  const total = used.reduce((sum, nanos) => sum + nanos, 0n);
  if (all === undefined || !isClear || total === 0n) return [];
  const { currency, cost } = all;
  const { minorUnits, digits } = cost;
  const unitCost = { numerator: minorUnits * minorUnit(digits), denominator: total };
  const shares = shareOut(unitCost, used, digits);
  return tokens.flatMap((row, index) => {
    const { quantity, cost: price, unpriced } = row;
    const nanos = used[index] ?? 0n;
    if (nanos === 0n) return [];
    const gpuCost = { minorUnits: shares[index] ?? 0n, digits };
    const figures = {
      currency,
      tokens: quantity,
      gpuCost,
      gpuCostPerMillion: perMillion(cost, total),
      ...(price !== undefined &&
        unpriced === undefined && {
          pricePerMillion: perMillion(price, nanos),
          margin: { minorUnits: price.minorUnits - gpuCost.minorUnits, digits },
        }),
    };
    return { row, figures };
  });
}

const NANOS_PER_MILLION = 10n ** 15n;

/** A cost ÷ nano-units of tokens, for a million tokens, in units of the currency. */
function perMillion({ minorUnits, digits }: Cost, nanos: bigint): Decimal {
  const moneyNanos = minorUnits * 10n ** BigInt(DECIMAL_PLACES - digits);
  return signedFromNanos(divideHalfAway(moneyNanos * NANOS_PER_MILLION, nanos));
}
