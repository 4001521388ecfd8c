import type { BucketEvent, Destination } from '../destinations/destination.ts';
import type { Clock } from '../telemetry/clock.ts';
import { earliestByTenant, type Entry, type Trouble, type Verdict, worse } from './entry.ts';
import type { InFlight } from './in-flight.ts';
import { type SendReport, sendBatch, type Settlement } from './send-batch.ts';
import type { TenantGate } from './tenant-gate.ts';

/** What one attempt to send came to; events without a verdict are to be sent again. */
export interface RoundReport {
  /** By sequence number. */
  readonly verdicts: ReadonlyMap<number, Verdict>;
  readonly trouble?: Trouble;
}

export interface SendRoundOptions {
  readonly destination: Destination;
  readonly gate: TenantGate;
  readonly inFlight: InFlight;
  readonly clock: Clock;
  readonly neighbours: (
    entries: readonly Entry[],
    signal: AbortSignal,
  ) => Promise<readonly BucketEvent[] | undefined>;
}

/**
 * One attempt to send events: too old ones become dead letters, tenants are provisioned first, what
 * may have been sent long ago is asked after, and the rest is put on record as in flight and sent.
 */
export function createSendRound(options: SendRoundOptions) {
  const { destination, gate, inFlight, clock } = options;
  /** `admitted` when the caller has provisioned the tenants itself. */
  return async (
    entries: readonly Entry[],
    signal: AbortSignal,
    admitted = false,
  ): Promise<RoundReport> => {
    const verdicts = new Map<number, Verdict>();
    const open = (): Entry[] => entries.filter(({ sequence }) => !verdicts.has(sequence));
    let trouble: Trouble | undefined;

    for (const entry of entries) {
      const reason = ageProblem(entry, destination.limits.maxAgeMs, clock.now());
      if (reason !== undefined) verdicts.set(entry.sequence, { kind: 'dead', reason });
    }

    const waiting = new Set<string>();
    if (!admitted) {
      const report = await gate.admit(earliestByTenant(open()), signal);
      trouble = report.trouble;
      for (const { sequence, event } of open()) {
        const admission = report.admissions.get(event.tenant);
        if (admission?.kind === 'parked') verdicts.set(sequence, admission);
        if (admission?.kind === 'waiting') waiting.add(event.tenant);
      }
    }
    if (trouble?.kind === 'hold') return { verdicts, trouble };

    const ready = open().filter(({ event }) => !waiting.has(event.tenant));
    const overdue = inFlight.overdue(ready);
    const verified = await verifyOverdue(options, overdue, signal);
    trouble = worse(trouble, verified.trouble);
    for (const [sequence, verdict] of verified.verdicts) verdicts.set(sequence, verdict);
    const absent = ({ sequence }: Entry): boolean => !verdicts.has(sequence);
    if (verified.trouble === undefined) inFlight.restart(overdue.filter(absent));
    else for (const { event } of overdue) waiting.add(event.tenant);

    // What comes after an event that is not settled yet must not overtake it.
    const sendable = ready.filter((entry) => absent(entry) && !waiting.has(entry.event.tenant));
    if (sendable.length === 0) return report(verdicts, trouble);
    const recorded = await inFlight.begin(sendable);
    if (recorded.kind === 'failed') {
      return report(verdicts, worse(trouble, { kind: 'retry', reason: recorded.message }));
    }
    const sent = await sendBatch(
      destination,
      sendable.map(({ event }) => event),
      signal,
    );
    settle(sendable, sent, gate, verdicts);
    return report(verdicts, worse(trouble, sent.trouble));
  };
}

function settle(
  entries: readonly Entry[],
  sent: SendReport,
  gate: TenantGate,
  verdicts: Map<number, Verdict>,
): void {
  const refusedTenants = new Map<string, string>();
  for (const [index, settlement] of sent.settlements) {
    const entry = entries[index];
    if (entry === undefined) continue;
    const { tenant } = entry.event;
    if (settlement.kind === 'provision') refusedTenants.set(tenant, settlement.reason);
    else verdicts.set(entry.sequence, verdictOf(settlement));
    if (settlement.kind === 'delivered') gate.accepted(tenant);
  }
  for (const [tenant, reason] of refusedTenants) gate.refused(tenant, reason);
}

function verdictOf(settlement: Exclude<Settlement, { readonly kind: 'provision' }>): Verdict {
  if (settlement.kind === 'delivered') return settlement;
  return { kind: 'dead', reason: settlement.reason };
}

/** Asks the other side after events that it may have had and forgotten (design 10). */
async function verifyOverdue(
  { destination, neighbours }: SendRoundOptions,
  overdue: readonly Entry[],
  signal: AbortSignal,
): Promise<RoundReport> {
  const verdicts = new Map<number, Verdict>();
  if (overdue.length === 0) return { verdicts };
  if (destination.verify === undefined) {
    const reason =
      'may have been delivered longer ago than the destination remembers, and it cannot be asked';
    for (const { sequence } of overdue) {
      verdicts.set(sequence, { kind: 'dead', reason, uncertain: true });
    }
    return { verdicts };
  }
  const events = overdue.map(({ event }) => event);
  const beside = await neighbours(overdue, signal);
  const outcome = await destination.verify(events, signal, beside);
  if (outcome.kind === 'retry') return { verdicts, trouble: outcome };
  for (const { sequence, event } of overdue) {
    const reason = outcome.uncertain?.get(event.id);
    if (outcome.known.has(event.id)) verdicts.set(sequence, { kind: 'delivered' });
    else if (reason !== undefined) {
      verdicts.set(sequence, { kind: 'dead', reason, uncertain: true });
    }
  }
  return { verdicts };
}

function ageProblem({ event }: Entry, maxAgeMs: number | undefined, now: number) {
  if (maxAgeMs === undefined || now - Date.parse(event.window_start) < maxAgeMs) return undefined;
  const days = Math.floor(maxAgeMs / 86_400_000);
  return `older than the ${days} days that the destination accepts: window_start: "${event.window_start}"`;
}

function report(verdicts: ReadonlyMap<number, Verdict>, trouble: Trouble | undefined): RoundReport {
  return { verdicts, ...(trouble !== undefined && { trouble }) };
}
