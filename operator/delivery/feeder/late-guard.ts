import type { LatePolicy } from '../../destinations/late.ts';
import { formatInstant } from '../../model/window.ts';
import type { DeliveryResult, QueuedEvent } from '../delivery-result.ts';
import type { PlanChanges } from '../lanes/plan-changes.ts';
import type { LateBilling, LateEvent, LateReport } from '../late/late-billing.ts';
import type { LateLines } from '../late/late-lines.ts';
import type { InvoiceReconcile } from '../operations/invoice-reconcile.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import { asOf } from '../records/tenant-changes.ts';

export type LateGuard = (
  queued: readonly QueuedEvent[],
  signal: AbortSignal,
) => Promise<LateReport>;

const NONE: ReadonlySet<number> = new Set();

/**
 * Creates the guard that finds usage whose invoice is already final. By policy it makes such usage
 * a dead letter or bills it separately (docs/explanation/delivery.md#late-usage). A dead letter
 * that an operator replays passes.
 */
export function createLateGuard(options: {
  readonly late: LatePolicy | undefined;
  /** Absent if the destination makes no invoices, or does not report them. */
  readonly invoices: Pick<InvoiceReconcile, 'closedUntil'> | undefined;
  readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
  /** The moment as of which usage is sent, where a change of plan has moved it. */
  readonly changes: Pick<PlanChanges, 'sentAt'>;
  /** Lines of late usage. Their events are not sent, whatever the current policy is. */
  readonly lines: Pick<LateLines, 'has'>;
  /** Absent if late usage is not billed separately. */
  readonly billing: LateBilling | undefined;
}): LateGuard {
  const { late, invoices, deadLetters, changes, lines, billing } = options;
  const isWatching = late !== undefined && late !== 'send' && invoices !== undefined;
  return async (queued, signal) => {
    const results = new Map<number, DeliveryResult>();
    const found: LateEvent[] = [];
    for (const one of queued) {
      const { sequence, event } = one;
      if (lines.has(sequence)) results.set(sequence, { kind: 'delivered' });
      if (!isWatching || results.has(sequence)) continue;
      if (late === 'hold' && deadLetters.has(sequence)) continue;
      const until = await invoices.closedUntil(event.tenant, event.metric);
      const at = changes.sentAt(one);
      if (until === undefined || at >= until) continue;
      if (late !== 'hold') {
        found.push({ ...one, sent: asOf(event, at) });
        continue;
      }
      const reason = `late: invoices until ${formatInstant(until)} are final, and none of them would include it: enter it there by hand and discard it, or replay it by force to send it anyway`;
      results.set(sequence, { kind: 'dead', reason });
    }
    if (billing === undefined || found.length === 0) return { results, waiting: NONE };
    const report = await billing(found, signal);
    const { waiting, blocked } = report;
    return {
      results: new Map([...results, ...report.results]),
      waiting,
      blocked,
    };
  };
}
