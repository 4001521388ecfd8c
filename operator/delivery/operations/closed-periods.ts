import { isBilledSeparately, type LatePolicy } from '../../destinations/late.ts';
import { formatInstant } from '../../model/window.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { PlanChanges } from '../lanes/plan-changes.ts';
import type { InvoiceReconcile } from './invoice-reconcile.ts';

/**
 * Returns a text about events to be sent again that belong to billing periods with final invoices.
 * Undefined if there are none, by the invoices that were fetched so far.
 */
export type ClosedPeriods = (again: AsyncIterable<QueuedEvent>) => Promise<string | undefined>;

export function createClosedPeriods({
  invoices,
  changes,
  wants,
  effect,
  late,
}: {
  /** Absent if the destination makes no invoices, or does not report them. */
  readonly invoices: Pick<InvoiceReconcile, 'closedUntil'> | undefined;
  /** The moment as of which usage is sent, where a change of plan has moved it. */
  readonly changes: Pick<PlanChanges, 'sentAt'>;
  readonly wants: (event: QueuedEvent['event']) => boolean;
  /** For people: what the billing system does with usage of such periods. */
  readonly effect: string | undefined;
  /** The policy for late usage (docs/explanation/delivery.md#late-usage). */
  readonly late: LatePolicy | undefined;
}): ClosedPeriods {
  if (invoices === undefined) return async () => undefined;
  return async (again) => {
    const tenants = new Map<string, number>();
    let events = 0;
    for await (const { sequence, event } of again) {
      if (!wants(event)) continue;
      const { tenant, metric } = event;
      const until = await invoices.closedUntil(tenant, metric);
      if (until === undefined || changes.sentAt({ sequence, event }) >= until) continue;
      events += 1;
      tenants.set(tenant, Math.max(until, tenants.get(tenant) ?? until));
    }
    const [last] = [...tenants].toSorted(([, a], [, b]) => b - a);
    if (last === undefined) return undefined;
    const [tenant, until] = last;
    const whose =
      tenants.size === 1
        ? `tenant ${JSON.stringify(tenant)}, whose invoices until ${formatInstant(until)} are final`
        : `${tenants.size} tenants whose invoices are final, those of ${JSON.stringify(tenant)} until ${formatInstant(until)}`;
    const what = `${events} ${events === 1 ? 'event' : 'events'} of closed billing periods: of ${whose}`;
    const outcome = isBilledSeparately(late)
      ? `late is "${late}": it is billed on separate lines`
      : effect;
    return outcome === undefined ? what : `${what}: ${outcome}`;
  };
}
