import type { LatePolicy } from '../../destinations/late.ts';
import { formatInstant } from '../../model/window.ts';
import type { DeliveryResult, QueuedEvent } from '../delivery-result.ts';
import type { PlanChanges } from '../lanes/plan-changes.ts';
import type { LateBilling, LateEvent, LateReport } from '../late/late-billing.ts';
import type { LateLines } from '../late/late-lines.ts';
import type { InvoiceReconcile } from '../operations/invoice-reconcile.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import { asOf } from '../records/tenant-changes.ts';

export interface LateGuardOptions {
  readonly late: LatePolicy | undefined;
  /** Absent where the destination makes no invoices, or cannot tell of them. */
  readonly invoices: Pick<InvoiceReconcile, 'closedUntil'> | undefined;
  readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
  /** When usage counts that belongs to a plan which began after its window. */
  readonly changes: Pick<PlanChanges, 'sentAt'>;
  /** What was billed apart already is not sent, whatever the policy is by now. */
  readonly lines: Pick<LateLines, 'has'>;
  /** Absent where late usage is not billed apart. */
  readonly billing: LateBilling | undefined;
}

export type LateGuard = (
  queued: readonly QueuedEvent[],
  signal: AbortSignal,
) => Promise<LateReport>;

const NOBODY: ReadonlySet<number> = new Set();

/**
 * Finds usage that comes after the invoice of its time is final, and holds it back or has it billed apart, where
 * that is wanted (docs/explanation/delivery.md#late-usage). What was held back and is sent once more by an operator is let through.
 */
export function createLateGuard(options: LateGuardOptions): LateGuard {
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
      const reason = `late: invoices until ${formatInstant(until)} are final, and this would be on none: enter it there by hand and discard it, or replay it by force to have it sent all the same`;
      results.set(sequence, { kind: 'dead', reason });
    }
    if (billing === undefined || found.length === 0) return { results, waiting: NOBODY };
    const report = await billing(found, signal);
    const { waiting, blocked } = report;
    return {
      results: new Map([...results, ...report.results]),
      waiting,
      blocked,
    };
  };
}
