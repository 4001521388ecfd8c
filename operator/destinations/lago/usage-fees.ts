import { type JsonObject, objectOf, objectsOf, textOf, timeOf } from '../json.ts';

/** An invoice with those of its fees that are for usage of a subscription. */
export interface UsageFees {
  readonly invoice: JsonObject;
  readonly fees: readonly JsonObject[];
}

/** A fee for usage. Times are milliseconds since the epoch, both ends belong to it. */
interface UsageFee {
  readonly fee: JsonObject;
  readonly charge: string;
  readonly from: number;
  readonly to: number;
  readonly costs: boolean;
}

/**
 * Returns the fees of invoices that count the usage of a subscription once
 * (docs/how-to/destinations/lago.md#how-invoices-are-read). These are left out:
 *
 * 1. Invoices of the type `progressive_billing`. The usage on them is on the invoice of its period too, which credits them.
 * 2. True-up fees. They are what a charge’s minimum adds, and have the units 1.
 * 3. Fees of a charge that costs nothing, where another charge of the metric costs something in the same time. Every charge
 *    counts all usage of its metric: bootstrapping makes charges of 0, and people add theirs beside them. Of several charges
 *    that all cost nothing one is taken; several that cost something bill the usage as often, and all are taken.
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

/** Whether an invoice, or what a list has of it, is of a type that counts usage. */
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

/** Of the fees for one metric, those of charges that another charge stands for. */
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
