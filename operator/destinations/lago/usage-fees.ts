import { type JsonObject, objectOf, objectsOf, textOf, timeOf } from '../json.ts';

/** An invoice with its fees for usage of a subscription. */
export interface UsageFees {
  readonly invoice: JsonObject;
  readonly fees: readonly JsonObject[];
}

/** A fee for usage. Times are milliseconds since the epoch, both ends included. */
interface UsageFee {
  readonly fee: JsonObject;
  readonly charge: string;
  readonly from: number;
  readonly to: number;
  readonly costs: boolean;
}

/**
 * Returns the fees of invoices so that each usage of a subscription counts once
 * (docs/how-to/destinations/lago.md#how-invoices-are-read). It leaves out:
 *
 * 1. Invoices of the type `progressive_billing`. The invoice of the period repeats their usage and
 *    credits them.
 * 2. True-up fees. A charge's minimum adds them, with 1 unit.
 * 3. Fees of a charge that costs nothing, where another charge of the metric costs something in the
 *    same time. Every charge counts all usage of its metric. Bootstrapping makes charges of 0, and
 *    people add theirs beside them.
 *
 * Of several charges that all cost nothing it counts one. Several charges that cost something bill
 * the usage as often, so it counts all of them.
 */
export function usageFees(
  invoices: readonly JsonObject[],
  subscription: string,
): readonly UsageFees[] {
  const found = invoices
    .filter(mayHaveUsage)
    .map((invoice) => ({ invoice, fees: objectsOf(invoice, 'fees').filter(isUsage) }));
  const groups = Map.groupBy(
    found.flatMap(({ fees }) => fees),
    (fee) => JSON.stringify([fee['lago_subscription_id'], objectOf(fee, 'item')['code']]),
  );
  const masked = new Set([...groups.values()].flatMap((fees) => maskedOf(fees.map(readFee))));
  return found.map(({ invoice, fees }) => ({
    invoice,
    fees: fees.filter((fee) => !masked.has(fee)),
  }));

  function isUsage(fee: JsonObject): boolean {
    const isCharge = textOf(objectOf(fee, 'item'), 'type') === 'charge';
    const isTrueUp = textOf(fee, 'lago_true_up_parent_fee_id') !== undefined;
    return isCharge && !isTrueUp && textOf(fee, 'external_subscription_id') === subscription;
  }
}

/** Returns whether an invoice, or its entry in a list, has a type with usage. */
export function mayHaveUsage(invoice: JsonObject): boolean {
  return textOf(invoice, 'invoice_type') !== 'progressive_billing';
}

function readFee(fee: JsonObject): UsageFee {
  return {
    fee,
    charge: textOf(fee, 'lago_charge_id') ?? '',
    from: timeOf(fee, 'from_date') ?? Number.NEGATIVE_INFINITY,
    to: timeOf(fee, 'to_date') ?? Number.POSITIVE_INFINITY,
    costs: Number(fee['precise_amount'] ?? fee['amount_cents'] ?? 0) !== 0,
  };
}

/** Returns the fees of one metric that point 3 leaves out. */
function maskedOf(fees: readonly UsageFee[]): readonly JsonObject[] {
  return fees
    .filter((one) => {
      const alike = fees.filter(({ from, to }) => from <= one.to && one.from <= to);
      if (alike.some(({ charge, costs }) => charge === one.charge && costs)) return false;
      return alike.some(
        ({ charge, costs }) => charge !== one.charge && (costs || charge < one.charge),
      );
    })
    .map(({ fee }) => fee);
}
