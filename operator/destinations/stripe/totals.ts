import { decimalFromNanos, nanosFromDecimal, roundToDecimal } from '../../model/decimal.ts';
import type { TotalsOutcome, TotalsQuery } from '../destination.ts';
import type { StripeCustomers } from './customers.ts';
import { isMeterOf } from './meter-name.ts';
import type { StripeMeters } from './meters.ts';
import type { StripeClient } from './stripe-client.ts';

/**
 * What Stripe counts of a tenant's metric, over all of its meters, from their event summaries. These
 * follow events with a delay, and are doubles.
 */
export async function stripeTotal(
  client: StripeClient,
  meters: StripeMeters,
  customers: StripeCustomers,
  { tenant, metric, from, to }: TotalsQuery,
  signal: AbortSignal,
): Promise<TotalsOutcome> {
  const customer = await customers.find(tenant.id, tenant.stripeCustomerId, signal);
  if (customer.kind === 'none') return { kind: 'total', quantity: '0' };
  if (customer.kind === 'retry') return { kind: 'retry', reason: customer.reason };
  if (customer.kind !== 'customer') return { kind: 'unsupported', reason: customer.reason };
  if (customers.isShared(customer.id)) {
    const reason = `its customer in Stripe pays for several tenants: "${customer.id}"`;
    return { kind: 'unsupported', reason };
  }
  let nanos = 0n;
  for (const meter of meters.all().filter(({ eventName }) => isMeterOf(eventName, metric))) {
    const sum = await summedNanos(client, meter.id, customer.id, from, to, signal);
    if (typeof sum !== 'bigint') return sum;
    nanos += sum;
  }
  return { kind: 'total', quantity: decimalFromNanos(nanos < 0n ? 0n : nanos) };
}

/** The sum of a meter's events of one customer with a timestamp in `[from, to)`, whole minutes. */
export async function summedNanos(
  client: StripeClient,
  meter: string,
  customer: string,
  from: number,
  to: number,
  signal: AbortSignal,
): Promise<bigint | Exclude<TotalsOutcome, { kind: 'total' }>> {
  const window = { customer, start_time: from / 1000, end_time: to / 1000 };
  const path = `/v1/billing/meters/${encodeURIComponent(meter)}/event_summaries`;
  const list = await client.list(path, window, signal);
  if (list.kind === 'refused') return { kind: 'unsupported', reason: list.reason };
  if (list.kind !== 'list') return { kind: 'retry', reason: list.reason };
  let nanos = 0n;
  for (const summary of list.items) {
    const value = Number(summary['aggregated_value'] ?? 0);
    const decimal = roundToDecimal(String(Math.abs(value)));
    if (decimal === undefined) {
      return { kind: 'unsupported', reason: `not a number: aggregated_value: "${value}"` };
    }
    nanos += value < 0 ? -nanosFromDecimal(decimal) : nanosFromDecimal(decimal);
  }
  return nanos;
}
