import type { LateBiller, LatePolicy } from '../../destinations/late.ts';
import { isNegative } from '../../model/correction.ts';
import {
  type BlockReason,
  type DeliveryResult,
  graver,
  type QueuedEvent,
} from '../delivery-result.ts';
import type { CorrectionGuard } from '../feeder/correction-guard.ts';
import type { Verification } from '../feeder/verification.ts';
import type { TenantDirectory } from '../lanes/tenant-directory.ts';
import type { InFlight } from '../records/in-flight.ts';
import type { LateLines, PricedEvent } from './late-lines.ts';

/** What became of late events. Those that are neither settled nor waiting are sent as usage. */
export interface LateReport {
  /** By sequence number. */
  readonly results: ReadonlyMap<number, DeliveryResult>;
  /** Not to be sent in this round. */
  readonly waiting: ReadonlySet<number>;
  readonly blocked?: BlockReason;
}

/** A late event as it would be sent: as of another moment where a change of plan has moved it. */
export interface LateEvent extends QueuedEvent {
  readonly sent: QueuedEvent['event'];
}

interface LateBillingOptions {
  readonly biller: LateBiller;
  readonly policy: Extract<LatePolicy, 'next' | 'credit'>;
  readonly lines: Pick<LateLines, 'add'>;
  readonly corrections: CorrectionGuard;
  readonly verify: Verification;
  readonly inFlight: Pick<InFlight, 'mayHave' | 'overdue'>;
  readonly directory: Pick<TenantDirectory, 'find'>;
}

export type LateBilling = (late: readonly LateEvent[], signal: AbortSignal) => Promise<LateReport>;

/**
 * Makes late events parts of lines, at the price of their time (docs/explanation/delivery.md#late-usage). What the
 * billing system may have already is not billed apart: what was sent a short while ago is sent once more, and what
 * was sent long ago is asked after.
 */
export function createLateBilling(options: LateBillingOptions): LateBilling {
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
    const ours = late.filter(({ sequence }) => overdue.has(sequence) || !known.has(sequence));

    for (const [sequence, { result }] of await corrections(ours)) {
      if (result === undefined) waiting.add(sequence);
      else results.set(sequence, result);
    }

    const requested = sent.filter((one) => overdue.has(one.sequence) && isOpen(one));
    const verified = await verify(requested, signal);
    for (const [sequence, result] of verified.results) results.set(sequence, result);
    if (verified.blocked !== undefined) requested.filter(isOpen).forEach(wait);
    blocked = verified.blocked;

    const priced: PricedEvent[] = [];
    const open = ours.filter(isOpen);
    for (const [tenant, own] of Map.groupBy(open, ({ event }) => event.tenant)) {
      const events = own.map((one) => one.sent);
      const answers = await biller.price(await directory.find(tenant), events, signal);
      for (const [index, one] of own.entries()) {
        const { sequence, event } = one;
        const answer = answers[index] ?? { kind: 'retry', reason: 'no price for late usage' };
        if (answer.kind === 'priced') {
          const isCredit = policy === 'credit' && isNegative(event.quantity);
          const way = isCredit ? 'credit' : 'next';
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
