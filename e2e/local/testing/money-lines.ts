import type { Bill } from '../../fakes/lago/invoices.ts';

/** What one price comes to for one tenant, as the dashboard or as the billing system has it. */
export interface MoneyLine {
  /** `<tenant> <metric> <quantity> <events>`: equal on both sides where both have the same usage. */
  readonly usage: string;
  /** `12.30 EUR`; `unpriced` where there is no price. */
  readonly amount: string;
}

/** The answer of `GET /api/v1/costs?group_by=tenant,price`. */
export interface CostAnswer {
  readonly rows: readonly {
    readonly tenant: string;
    readonly metric: string;
    readonly quantity: number;
    readonly events: number;
    readonly cost?: number;
    readonly currency?: string;
  }[];
}

/** Lines of the operator's answer about costs, sorted. */
export function costLines({ rows }: CostAnswer): readonly MoneyLine[] {
  return sorted(
    rows.map(({ tenant, metric, quantity, events, cost, currency = '' }) => ({
      usage: `${tenant} ${metric} ${quantity} ${events}`,
      amount: cost === undefined ? 'unpriced' : `${cost.toFixed(2)} ${currency}`,
    })),
  );
}

/** Lines of the bills at the stand-in for Lago, sorted. Utilisation is left out: it is charged nowhere. */
export function billLines(bills: readonly Bill[]): readonly MoneyLine[] {
  return sorted(
    bills.flatMap(({ customer, currency, lines }) =>
      lines
        .filter(({ code }) => code !== 'tenant_gpu_utilization')
        .map(({ code, units, events, amountCents }) => ({
          usage: `${customer} ${code} ${Number(units)} ${events}`,
          amount: `${(amountCents / 100).toFixed(2)} ${currency}`,
        })),
    ),
  );
}

function sorted(lines: readonly MoneyLine[]): readonly MoneyLine[] {
  return lines.toSorted((a, b) => (a.usage < b.usage ? -1 : 1));
}
