import { formatInstant } from '../../model/window.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { PlanChanges } from '../lanes/plan-changes.ts';
import type { InvoiceReconcile } from '../operations/invoice-reconcile.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';

export interface LateGateOptions {
  readonly late: 'send' | 'hold' | undefined;
  /** Absent where the destination makes no invoices, or cannot tell of them. */
  readonly invoices: Pick<InvoiceReconcile, 'closedUntil'> | undefined;
  readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
  /** When usage counts that belongs to a plan which began after its window. */
  readonly changes: Pick<PlanChanges, 'sentAt'>;
}

/** Why events wait for a person, by sequence number. */
export type LateGate = (queued: readonly QueuedEvent[]) => Promise<ReadonlyMap<number, string>>;

const NONE: ReadonlyMap<number, string> = new Map();

/**
 * Holds usage back that comes after the invoice of its time is final, where that is wanted
 * (docs/delivery.md#late-usage). What is sent once more by an operator is let through.
 */
export function createLateGate({
  late,
  invoices,
  deadLetters,
  changes,
}: LateGateOptions): LateGate {
  if (late !== 'hold' || invoices === undefined) return async () => NONE;
  return async (queued) => {
    const held = new Map<number, string>();
    for (const { sequence, event } of queued) {
      if (deadLetters.has(sequence)) continue;
      const until = await invoices.closedUntil(event.tenant, event.metric);
      if (until === undefined || changes.sentAt({ sequence, event }) >= until) continue;
      const reason = `late: invoices until ${formatInstant(until)} are final, and this would be on none: enter it there by hand and discard it, or replay it to have it sent all the same`;
      held.set(sequence, reason);
    }
    return held;
  };
}
