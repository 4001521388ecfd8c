import type { LateBiller, LatePolicy } from '../../destinations/late.ts';
import { isNegative } from '../../model/correction.ts';
import {
  type BlockReason,
  type DeliveryResult,
  graver,
  type QueuedEvent,
} from '../delivery-result.ts';
import type { CorrectionGuard } from '../feeder/correction-guard.ts';
import type { Verify } from '../feeder/verification.ts';
import type { TenantDirectory } from '../lanes/tenant-directory.ts';
import type { InFlight } from '../records/in-flight.ts';
import type { LateLines, PricedEvent } from './late-lines.ts';

/** The outcome of late events. Those that are neither settled nor waiting are sent as usage. */
export interface LateReport {
  /** By sequence number. */
  readonly results: ReadonlyMap<number, DeliveryResult>;
  /** Sequence numbers that are not sent in this attempt. */
  readonly waiting: ReadonlySet<number>;
  readonly blocked?: BlockReason;
}

/** A late event. `sent`: its form at the destination, where a change of plan may move it. */
export interface LateEvent extends QueuedEvent {
  readonly sent: QueuedEvent['event'];
}

export type LateBilling = (late: readonly LateEvent[], signal: AbortSignal) => Promise<LateReport>;

/**
 * Adds late events to lines, at the price of their time (docs/explanation/delivery.md#late-usage).
 * An event that the billing system may already have is not billed separately:
 *
 * 1. Sent recently: it is sent again, and the billing system recognizes its id.
 * 2. Sent long ago: the billing system is queried for it.
 */
export function createLateBilling(options: {
  readonly biller: LateBiller;
  readonly policy: Extract<LatePolicy, 'next' | 'credit'>;
  readonly lines: Pick<LateLines, 'add'>;
  readonly corrections: CorrectionGuard;
  readonly verify: Verify;
  readonly inFlight: Pick<InFlight, 'mayHave' | 'overdue'>;
  readonly directory: Pick<TenantDirectory, 'find'>;
}): LateBilling {
  const { biller, policy, lines, corrections, verify, inFlight, directory } = options;
  return async (late, signal) => {
    const results = new Map<number, DeliveryResult>();
    const waiting = new Set<number>();
    let blocked: BlockReason | undefined;
    const wait = ({ sequence }: QueuedEvent): void => void waiting.add(sequence);
    const isOpen = ({ sequence }: QueuedEvent): boolean =>
      !results.has(sequence) && !waiting.has(sequence);

    const sent = late.map(({ sent: event, ...one }): QueuedEvent => ({ ...one, event }));
    const overdue = new Set(inFlight.overdue(sent).map(({ sequence }) => sequence));
    const known = new Set(inFlight.mayHave(sent).map(({ sequence }) => sequence));
    const billable = late.filter(({ sequence }) => overdue.has(sequence) || !known.has(sequence));

    for (const [sequence, { result }] of await corrections(billable)) {
      if (result === undefined) waiting.add(sequence);
      else results.set(sequence, result);
    }

    const queried = sent.filter((one) => overdue.has(one.sequence) && isOpen(one));
    const verified = await verify(queried, signal);
    for (const [sequence, result] of verified.results) results.set(sequence, result);
    if (verified.blocked !== undefined) queried.filter(isOpen).forEach(wait);
    blocked = verified.blocked;

    const priced: PricedEvent[] = [];
    const open = billable.filter(isOpen);
    for (const [tenant, ofTenant] of Map.groupBy(open, ({ event }) => event.tenant)) {
      const events = ofTenant.map((one) => one.sent);
      const answers = await biller.price(await directory.find(tenant), events, signal);
      for (const [index, one] of ofTenant.entries()) {
        const { sequence, event } = one;
        const answer = answers[index] ?? { kind: 'retry', reason: 'no price for late usage' };
        if (answer.kind === 'priced') {
          const isCreditNote = policy === 'credit' && isNegative(event.quantity);
          const way = isCreditNote ? 'credit' : 'next';
          const { price } = answer;
          priced.push({ sequence, event, price, way });
        } else if (answer.kind === 'delivered') {
          results.set(sequence, answer);
        } else if (answer.kind === 'rejected') {
          results.set(sequence, { kind: 'dead', reason: `late: ${answer.reason}` });
        } else {
          wait(one);
          blocked = graver(blocked, answer);
        }
      }
    }
    if (priced.length > 0) {
      const added = await lines.add(priced);
      if (added.kind === 'written') {
        for (const { sequence } of priced) results.set(sequence, { kind: 'delivered' });
      } else {
        priced.forEach(wait);
        blocked = graver(blocked, { kind: 'retry', reason: added.message });
      }
    }
    return { results, waiting, blocked };
  };
}
