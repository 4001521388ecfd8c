import type { DeliveryOutcome } from '../destination.ts';
import type { LagoEvent } from './event-payload.ts';
import { isObject } from '../json.ts';
import type { LagoClient, LagoRefusal } from './lago-client.ts';

/** Lago checks the format of all events first and only then looks for duplicates: that takes two passes, a third for what changed meanwhile. */
const MAX_PASSES = 3;
const DELIVERED: DeliveryOutcome = { kind: 'delivered' };
/** Refusals of the whole call that do not say of which event. */
const BLIND_REFUSALS = new Set([400, 413, 422]);

export interface ChunkReport {
  /** `outcomes[i]` belongs to `events[i]`. */
  readonly outcomes: readonly DeliveryOutcome[];
  /** The server takes fewer events in a call than were sent. */
  readonly tooMany: boolean;
}

/**
 * Sends up to one call's worth of events. One bad or repeated event makes Lago refuse the whole call,
 * with the faults by index (facts 1.3): duplicates are delivered, faulty events rejected, and the rest
 * is sent again.
 */
export async function sendChunk(
  client: LagoClient,
  events: readonly LagoEvent[],
  signal: AbortSignal,
): Promise<ChunkReport> {
  const outcomes = new Map<number, DeliveryOutcome>();
  let open = events.map((_, index) => index);
  const report = (rest: DeliveryOutcome, tooMany = false): ChunkReport => ({
    outcomes: events.map((_, index) => outcomes.get(index) ?? rest),
    tooMany,
  });

  for (let pass = 1; pass <= MAX_PASSES; pass += 1) {
    const batch = open.flatMap((index) => events[index] ?? []);
    const answer = await client.call('POST', '/events/batch', { events: batch }, signal);
    if (answer.kind === 'ok') {
      if (Array.isArray(answer.body['events'])) return report(DELIVERED);
      return report({ kind: 'hold', reason: 'the answer has no events: check the URL' });
    }
    if (answer.kind !== 'refused') return report(answer);
    if (isTooMany(answer)) return report({ kind: 'split', reason: answer.reason }, true);
    const faults = faultsByIndex(answer, open.length);
    if (faults.size === 0) {
      const kind = BLIND_REFUSALS.has(answer.status) ? 'split' : 'hold';
      return report({ kind, reason: answer.reason });
    }
    for (const [position, outcome] of faults) {
      const index = open[position];
      if (index !== undefined) outcomes.set(index, outcome);
    }
    open = open.filter((index) => !outcomes.has(index));
    if (open.length === 0) return report(DELIVERED);
  }
  return report({ kind: 'retry', reason: 'Lago keeps refusing parts of the batch' });
}

function isTooMany({ details }: LagoRefusal): boolean {
  const said = details['events'];
  return Array.isArray(said) && said.includes('too_many_events');
}

/** What a refusal says of single events, by their position in the call. */
function faultsByIndex(refusal: LagoRefusal, count: number): Map<number, DeliveryOutcome> {
  const faults = new Map<number, DeliveryOutcome>();
  if (refusal.status !== 422) return faults;
  for (const [key, fault] of Object.entries(refusal.details)) {
    if (!/^\d+$/.test(key) || Number(key) >= count) continue;
    faults.set(Number(key), judgeFault(fault));
  }
  return faults;
}

/** A taken transaction id is all that is wrong with a duplicate. */
function judgeFault(fault: unknown): DeliveryOutcome {
  if (isObject(fault)) {
    const fields = Object.keys(fault);
    const said = fault['transaction_id'];
    const taken = Array.isArray(said) && said.includes('value_already_exist');
    if (taken && fields.length === 1) return DELIVERED;
  }
  const text = typeof fault === 'string' ? fault : JSON.stringify(fault);
  return { kind: 'rejected', reason: `lago-style API error 422: ${text}`.slice(0, 300) };
}
