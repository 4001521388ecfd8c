import type { Destination } from '../../destinations/destination.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { Clock } from '../../telemetry/clock.ts';
import {
  type BlockReason,
  type DeliveryResult,
  earliestByTenant,
  graver,
  type QueuedEvent,
} from '../delivery-result.ts';
import { type PlanChanges, WAITS_FOR_CHANGE } from '../lanes/plan-changes.ts';
import type { ParkedTenants } from '../lanes/parked-tenants.ts';
import type { TenantProvisioner } from '../lanes/tenant-provisioner.ts';
import { asOf } from '../records/tenant-changes.ts';
import type { InFlight } from '../records/in-flight.ts';
import type { CorrectionGate } from './correction-gate.ts';
import type { LateGate } from './late-gate.ts';
import { type SendReport, sendBatch } from './send-batch.ts';
import type { Verification } from './verification.ts';

/** What one attempt to send came to; events without a result are to be sent again. */
export interface RoundReport {
  /** By sequence number. */
  readonly results: ReadonlyMap<number, DeliveryResult>;
  readonly blocked?: BlockReason;
}

export interface SendRoundOptions {
  readonly destination: Destination;
  readonly provisioner: TenantProvisioner;
  readonly changes: PlanChanges;
  readonly parked: ParkedTenants;
  readonly inFlight: InFlight;
  readonly clock: Clock;
  readonly verify: Verification;
  readonly corrections: CorrectionGate;
  readonly late: LateGate;
}

/** `admitted` when the caller has provisioned the tenants itself. */
export type SendRound = (
  queued: readonly QueuedEvent[],
  signal: AbortSignal,
  admitted?: boolean,
) => Promise<RoundReport>;

/**
 * One attempt to send events: late ones are held back or billed apart where that is wanted, too old ones become dead letters, tenants are
 * provisioned first, what may have been sent long ago is asked after, corrections wait for what they correct, and the rest is put on record as in flight and sent.
 */
export function createSendRound(options: SendRoundOptions): SendRound {
  const { destination, provisioner, changes, parked, inFlight, clock, verify, corrections, late } =
    options;

  const attempt = async (
    queued: readonly QueuedEvent[],
    earlier: Map<number, number>,
    signal: AbortSignal,
    admitted: boolean,
  ): Promise<RoundReport> => {
    const results = new Map<number, DeliveryResult>();
    const isOpen = ({ sequence }: QueuedEvent): boolean => !results.has(sequence);
    const waiting = new Set<string>();
    let blocked: BlockReason | undefined;

    const lateOnes = await late(queued, signal);
    for (const [sequence, result] of lateOnes.results) results.set(sequence, result);
    blocked = lateOnes.blocked;

    const { maxAgeMs } = destination.limits;
    for (const one of maxAgeMs === undefined ? [] : queued) {
      const { sequence, event } = one;
      if (results.has(sequence) || lateOnes.waiting.has(sequence)) continue;
      const sent = asOf(event, changes.sentAt(one));
      const reason = ageProblem(sent.window_start, maxAgeMs, clock.now());
      if (reason !== undefined) results.set(sequence, { kind: 'dead', reason });
    }

    const usage = queued.filter((one) => isOpen(one) && !lateOnes.waiting.has(one.sequence));
    const kept = await corrections(usage);
    for (const [sequence, { result }] of kept)
      if (result !== undefined) results.set(sequence, result);

    if (!admitted) {
      const open = usage.filter(isOpen);
      const report = await provisioner.admit(earliestByTenant(open), signal);
      blocked = graver(blocked, report.blocked);
      for (const { sequence, event } of open) {
        const admission = report.admissions.get(event.tenant);
        if (admission?.kind === 'parked') results.set(sequence, admission);
        if (admission?.kind === 'waiting') waiting.add(event.tenant);
      }
    }
    if (blocked?.kind === 'hold') return { results, blocked };

    const admittedOnes = usage.filter(
      (one) => isOpen(one) && !waiting.has(one.event.tenant) && !kept.has(one.sequence),
    );
    const report = await changes.place(admittedOnes);
    if (report.kind === 'failed') {
      blocked = graver(blocked, { kind: 'retry', reason: report.reason });
      return { results, ...omitUndefined({ blocked }) };
    }
    const ready = admittedOnes.flatMap((one): QueuedEvent[] => {
      const { sequence, event } = one;
      const placement = report.placements.get(sequence);
      if (placement?.kind !== 'wait') {
        return [placement === undefined ? one : { ...one, event: asOf(event, placement.at) }];
      }
      results.set(sequence, { kind: 'parked', reason: WAITS_FOR_CHANGE });
      parked.add(event.tenant, WAITS_FOR_CHANGE);
      return [];
    });
    const overdue = inFlight.overdue(ready);
    const verified = await verify(overdue, signal);
    blocked = graver(blocked, verified.blocked);
    for (const [sequence, result] of verified.results) results.set(sequence, result);
    if (verified.blocked === undefined) {
      const again = overdue.filter(isOpen);
      for (const one of again) if (!inFlight.isForced(one)) earlier.delete(one.sequence);
      inFlight.restart(again);
    } else for (const { event } of overdue) waiting.add(event.tenant);

    // What comes after an event that is not settled yet must not overtake it.
    const sendable = ready.filter((one) => isOpen(one) && !waiting.has(one.event.tenant));
    if (sendable.length === 0) return { results, ...omitUndefined({ blocked }) };
    const recorded = await inFlight.begin(sendable);
    if (recorded.kind === 'failed') {
      blocked = graver(blocked, { kind: 'retry', reason: recorded.message });
      return { results, ...omitUndefined({ blocked }) };
    }
    const events = sendable.map(({ event }) => event);
    const sent = await sendBatch(destination, events, signal);
    settle(sendable, sent, provisioner, results);
    // Whoever says no does not have it, unless an attempt before has brought it there.
    const denied = sendable.filter((_, index) => {
      const answer = sent.answers.get(index);
      return answer !== undefined && answer.kind !== 'delivered';
    });
    inFlight.restart(denied.filter(({ sequence }) => !earlier.has(sequence)));
    await inFlight.unanswered(sendable.filter(isOpen));
    blocked = graver(blocked, sent.blocked);
    return { results, ...omitUndefined({ blocked }) };
  };

  return async (queued, signal, admitted = false) => {
    const earlier = new Map<number, number>();
    for (const one of queued) {
      const since = inFlight.unansweredSince(one);
      if (since !== undefined) earlier.set(one.sequence, since);
    }
    const { results, blocked } = await attempt(queued, earlier, signal, admitted);
    return { results: withUnanswered(results, earlier), ...omitUndefined({ blocked }) };
  };
}

/** Those that are dead letters say so where an earlier attempt, whose beginning is given, may have been taken. */
function withUnanswered(
  results: ReadonlyMap<number, DeliveryResult>,
  earlier: ReadonlyMap<number, number>,
): ReadonlyMap<number, DeliveryResult> {
  if (earlier.size === 0) return results;
  return new Map(
    [...results].map(([sequence, result]): [number, DeliveryResult] => {
      const unansweredSince = result.kind === 'dead' ? earlier.get(sequence) : undefined;
      return [sequence, { ...result, ...omitUndefined({ unansweredSince }) }];
    }),
  );
}

/** Adds what the other side said for good to the results. */
function settle(
  queued: readonly QueuedEvent[],
  sent: SendReport,
  provisioner: TenantProvisioner,
  results: Map<number, DeliveryResult>,
): void {
  const refusedTenants = new Map<string, string>();
  const acceptedTenants = new Set<string>();
  for (const [index, answer] of sent.answers) {
    const one = queued[index];
    if (one === undefined) continue;
    const { tenant } = one.event;
    if (answer.kind === 'provision') refusedTenants.set(tenant, answer.reason);
    else if (answer.kind === 'delivered') results.set(one.sequence, answer);
    else results.set(one.sequence, { kind: 'dead', reason: answer.reason, refused: true });
    if (answer.kind === 'delivered') acceptedTenants.add(tenant);
  }
  for (const tenant of acceptedTenants) provisioner.accepted(tenant);
  for (const [tenant, reason] of refusedTenants) provisioner.refused(tenant, reason);
}

/** Why an event is too old for a destination, if it is. */
export function ageProblem(
  windowStart: string,
  maxAgeMs: number | undefined,
  now: number,
): string | undefined {
  if (maxAgeMs === undefined || now - Date.parse(windowStart) < maxAgeMs) return undefined;
  const days = Math.floor(maxAgeMs / 86_400_000);
  return `older than the ${days} days that the destination accepts: window_start: "${windowStart}"`;
}
