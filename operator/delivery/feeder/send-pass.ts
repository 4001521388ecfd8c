import type { DeliveryOutcome, Destination } from '../../destinations/destination.ts';
import { isBilledSeparately } from '../../destinations/late.ts';
import { errorText } from '../../model/error-text.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import {
  type BlockReason,
  type DeliveryResult,
  earliestByTenant,
  graver,
  type QueuedEvent,
} from '../delivery-result.ts';
import { WAITS_FOR_CHANGE } from '../lanes/plan-changes.ts';
import type { TenantDirectory } from '../lanes/tenant-directory.ts';
import type { TenantProvisioner } from '../lanes/tenant-provisioner.ts';
import { createLateBilling } from '../late/late-billing.ts';
import type { InvoiceReconcile } from '../operations/invoice-reconcile.ts';
import { asOf } from '../records/tenant-changes.ts';
import { SendAttempt, DEFERRED, WAITING } from './attempt.ts';
import { type CorrectionGuard, createCorrectionGuard } from './correction-guard.ts';
import type { FeedRecords } from './feed-records.ts';
import type { FeederOptions } from '../delivery-options.ts';
import { createLateGuard, type LateGuard } from './late-guard.ts';
import { createVerification, type Verify } from './verification.ts';

type SendStep = (attempt: SendAttempt, signal: AbortSignal) => Promise<void>;

/**
 * One attempt to send events. Each event has a state, and each step moves events of some states on:
 *
 * | Step    | Takes           | Moves to                                                         |
 * | ------- | --------------- | ---------------------------------------------------------------- |
 * | late    | ready           | settled (dead letter, or billed separately), waiting             |
 * | age     | ready           | settled (too old)                                                |
 * | correct | ready           | settled (nothing to correct), deferred (corrected event open)    |
 * | admit   | ready, deferred | settled (tenant parked), waiting (tenant not provisioned yet)    |
 * | place   | ready           | settled (waits for a plan change), ready (as of another moment)  |
 * | verify  | ready           | settled (delivered before, or uncertain), waiting (its tenant) |
 * | deliver | ready           | settled (delivered, refused)                                     |
 *
 * Events that are not settled at the end are sent again. No event of a tenant overtakes a waiting
 * one.
 */
export class SendPass {
  readonly #destination: Destination;
  readonly #feed: FeedRecords;
  readonly #provisioner: TenantProvisioner;
  readonly #clock: Clock;
  readonly #verification: Verify;
  readonly #corrections: CorrectionGuard;
  readonly #lateGuard: LateGuard;

  /** `invoices` is undefined if the destination makes none, or does not report them. */
  constructor(
    { settings, destination, clock }: FeederOptions,
    feed: FeedRecords,
    {
      directory,
      provisioner,
    }: { readonly directory: TenantDirectory; readonly provisioner: TenantProvisioner },
    invoices: InvoiceReconcile | undefined,
  ) {
    this.#destination = destination;
    this.#feed = feed;
    this.#provisioner = provisioner;
    this.#clock = clock;
    const { ledger, records, deadLetters, changes, pending, inFlight, lateLines } = feed;
    const known = { destination, records, deadLetters, pending, inFlight };
    const verify = createVerification({ ...known, ledger, changes });
    const corrections = createCorrectionGuard({ ...known, lateLines });
    this.#verification = verify;
    this.#corrections = corrections;
    const { late: policy } = settings;
    const { late: biller } = destination;
    const separate = { lines: lateLines, corrections, verify, inFlight, directory };
    const billing =
      isBilledSeparately(policy) && biller !== undefined
        ? createLateBilling({ ...separate, biller, policy })
        : undefined;
    const dated = { deadLetters, changes, invoices, lines: lateLines };
    this.#lateGuard = createLateGuard({ ...dated, late: policy, billing });
  }

  /** Sends events. `admitted`: the caller has provisioned their tenants. */
  async send(
    queued: readonly QueuedEvent[],
    signal: AbortSignal,
    admitted = false,
  ): Promise<{
    /** By sequence number. */
    readonly results: ReadonlyMap<number, DeliveryResult>;
    readonly blocked?: BlockReason;
  }> {
    const attempt = new SendAttempt(queued, this.#feed.inFlight);
    const steps: readonly SendStep[] = [
      this.#late,
      this.#age,
      this.#correct,
      ...(admitted ? [] : [this.#admit]),
      this.#place,
      this.#verify,
      this.#deliver,
    ];
    for (const step of steps) if (!attempt.isOver) await step(attempt, signal);
    return { results: attempt.results(), blocked: attempt.blocked };
  }

  readonly #late: SendStep = async (attempt, signal) => {
    const { results, waiting, blocked } = await this.#lateGuard(attempt.ready(), signal);
    for (const sequence of waiting) attempt.move(sequence, WAITING);
    attempt.settleAll(results);
    attempt.block(blocked);
  };

  readonly #age: SendStep = async (attempt) => {
    const { maxAgeMs } = this.#destination.limits;
    if (maxAgeMs === undefined) return;
    for (const one of attempt.ready()) {
      const sent = asOf(one.event, this.#feed.changes.sentAt(one));
      const reason = ageProblem(sent.window_start, maxAgeMs, this.#clock.now());
      if (reason !== undefined) attempt.settle(one.sequence, { kind: 'dead', reason });
    }
  };

  readonly #correct: SendStep = async (attempt) => {
    const refused = await this.#corrections(attempt.ready());
    for (const [sequence, { result }] of refused) {
      if (result === undefined) attempt.move(sequence, DEFERRED);
      else attempt.settle(sequence, result);
    }
  };

  readonly #admit: SendStep = async (attempt, signal) => {
    const open = attempt.in('ready', 'deferred');
    const report = await this.#provisioner.admit(earliestByTenant(open), signal);
    attempt.block(report.blocked);
    for (const { sequence, event } of open) {
      const admission = report.admissions.get(event.tenant);
      if (admission?.kind === 'parked') attempt.settle(sequence, admission);
      if (admission?.kind === 'waiting') attempt.move(sequence, WAITING);
    }
  };

  readonly #place: SendStep = async (attempt) => {
    if (attempt.blocked?.kind === 'blocked') {
      attempt.end();
      return;
    }
    const { changes, parked } = this.#feed;
    const report = await changes.place(attempt.ready());
    if (report.kind === 'failed') {
      attempt.block({ kind: 'retry', reason: report.reason });
      attempt.end();
      return;
    }
    for (const one of attempt.ready()) {
      const placement = report.placements.get(one.sequence);
      if (placement?.kind === 'wait') {
        attempt.settle(one.sequence, { kind: 'parked', reason: WAITS_FOR_CHANGE });
        parked.add(one.event.tenant, WAITS_FOR_CHANGE);
      } else if (placement !== undefined) {
        attempt.replace({ ...one, event: asOf(one.event, placement.at) });
      }
    }
  };

  readonly #verify: SendStep = async (attempt, signal) => {
    const { inFlight } = this.#feed;
    const overdue = inFlight.overdue(attempt.ready());
    const { results, blocked } = await this.#verification(overdue, signal);
    attempt.settleAll(results);
    attempt.block(blocked);
    if (blocked === undefined) {
      const again = overdue.filter(({ sequence }) => !results.has(sequence));
      attempt.forgetEarlier(again.filter((one) => !inFlight.isForced(one)));
      inFlight.restart(again);
      return;
    }
    const tenants = new Set(overdue.map(({ event }) => event.tenant));
    for (const { sequence, event } of attempt.ready()) {
      if (tenants.has(event.tenant)) attempt.move(sequence, WAITING);
    }
  };

  readonly #deliver: SendStep = async (attempt, signal) => {
    const { inFlight } = this.#feed;
    const sendable = attempt.ready();
    if (sendable.length === 0) return;
    const recorded = await inFlight.begin(sendable);
    if (recorded.kind === 'failed') {
      attempt.block({ kind: 'retry', reason: recorded.message });
      return;
    }
    const events = sendable.map(({ event }) => event);
    const { answers, blocked } = await sendBatch(this.#destination, events, signal);
    this.#answered(attempt, sendable, answers);
    // A destination that refuses an event does not have it, unless an earlier attempt delivered it.
    const denied = sendable.filter((_, index) => {
      const answer = answers.get(index);
      return answer !== undefined && answer.kind !== 'delivered';
    });
    inFlight.restart(denied.filter((one) => !attempt.wasSentBefore(one)));
    await inFlight.unanswered(attempt.ready());
    attempt.block(blocked);
  };

  /** Settles events with a final answer. Reports to the provisioner which tenants are known. */
  #answered(
    attempt: SendAttempt,
    sent: readonly QueuedEvent[],
    answers: ReadonlyMap<number, FinalAnswer>,
  ): void {
    const refusedTenants = new Map<string, string>();
    const acceptedTenants = new Set<string>();
    for (const [index, answer] of answers) {
      const one = sent[index];
      if (one === undefined) continue;
      const { sequence, event } = one;
      if (answer.kind === 'provision') refusedTenants.set(event.tenant, answer.reason);
      else if (answer.kind === 'delivered') attempt.settle(sequence, answer);
      else attempt.settle(sequence, { kind: 'dead', reason: answer.reason, refused: true });
      if (answer.kind === 'delivered') acceptedTenants.add(event.tenant);
    }
    for (const tenant of acceptedTenants) this.#provisioner.accepted(tenant);
    for (const [tenant, reason] of refusedTenants) this.#provisioner.refused(tenant, reason);
  }
}

/** Returns why an event is too old for a destination; undefined if it is not. */
export function ageProblem(
  windowStart: string,
  maxAgeMs: number | undefined,
  now: number,
): string | undefined {
  if (maxAgeMs === undefined || now - Date.parse(windowStart) < maxAgeMs) return undefined;
  const days = Math.floor(maxAgeMs / 86_400_000);
  return `older than the ${days} days that the destination accepts: window_start: "${windowStart}"`;
}

/** The destination's final answer for an event. `provision`: it does not know the tenant. */
type FinalAnswer =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'rejected'; readonly reason: string }
  | { readonly kind: 'provision'; readonly reason: string };

/**
 * Sends events and narrows a refusal down. A batch that is refused as a unit is sent again in
 * halves, until only the faulty event is rejected. Stops at the first reason that blocks, because
 * later events would meet the same one.
 */
export async function sendBatch(
  destination: Pick<Destination, 'send'>,
  events: readonly UsageEvent[],
  signal: AbortSignal,
): Promise<{
  /** By the event's index. Events without an answer are sent again. */
  readonly answers: ReadonlyMap<number, FinalAnswer>;
  readonly blocked?: BlockReason;
}> {
  const answers = new Map<number, FinalAnswer>();
  let blocked: BlockReason | undefined;

  const send = async (indexes: readonly number[]): Promise<void> => {
    const batch = indexes.flatMap((index) => events[index] ?? []);
    const outcomes = await trySending(destination, batch, signal);
    const refused: number[] = [];
    for (const [position, index] of indexes.entries()) {
      const outcome = outcomes[position] ?? UNANSWERED;
      if (outcome.kind === 'split') {
        if (indexes.length > 1) refused.push(index);
        else answers.set(index, { kind: 'rejected', reason: outcome.reason });
      } else if (outcome.kind === 'retry' || outcome.kind === 'blocked') {
        blocked = graver(blocked, outcome);
      } else {
        answers.set(index, outcome);
      }
    }
    const middle = Math.ceil(refused.length / 2);
    for (const half of [refused.slice(0, middle), refused.slice(middle)]) {
      if (half.length > 0 && blocked === undefined) await send(half);
    }
  };

  await send(events.map((_, index) => index));
  return { answers, blocked };
}

const UNANSWERED: DeliveryOutcome = { kind: 'retry', reason: 'no outcome for an event' };

/** Sends a batch. If the destination throws, every event is retried. */
async function trySending(
  destination: Pick<Destination, 'send'>,
  events: readonly UsageEvent[],
  signal: AbortSignal,
): Promise<readonly DeliveryOutcome[]> {
  try {
    return await destination.send(events, signal);
  } catch (error) {
    const reason = `send failed: ${errorText(error)}`;
    return events.map(() => ({ kind: 'retry', reason }));
  }
}
