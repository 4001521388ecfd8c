import type { UsageEvent } from '../../model/event.ts';
import type { VerifyOutcome } from '../destination.ts';
import { isObject, textOf } from '../json.ts';
import type { MetronomeClient } from './metronome-client.ts';

/** Ids in one question. */
const SEARCH_IDS = 100;

/** Which of the events Metronome has, by their transaction ids. */
export async function verifyEvents(
  client: MetronomeClient,
  events: readonly UsageEvent[],
  signal: AbortSignal,
): Promise<VerifyOutcome> {
  const known = new Set<string>();
  for (let start = 0; start < events.length; start += SEARCH_IDS) {
    const transactionIds = events.slice(start, start + SEARCH_IDS).map(({ id }) => id);
    const answer = await client.post('/v1/events/search', { transactionIds }, signal);
    if (answer.kind === 'retry') return answer;
    if (answer.kind !== 'ok') return { kind: 'retry', reason: answer.reason };
    if (!Array.isArray(answer.body)) return { kind: 'retry', reason: 'the answer has no events' };
    for (const found of (answer.body as unknown[]).filter(isObject)) {
      const id = textOf(found, 'transaction_id');
      if (id !== undefined) known.add(id);
    }
  }
  return { kind: 'verified', known };
}
