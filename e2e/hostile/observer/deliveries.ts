import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { BilledEvent } from './truth.ts';
import type { Decision } from './evaluation.ts';

const PATIENCE_MS = 30_000;
const POLL_MS = 500;
const MOST_REPORTED = 10;

/** What the honest billing system was sent is what was measured, each event once. */
export async function holdDeliveries(
  received: string,
  measured: readonly BilledEvent[],
  decision: Decision,
): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS;
  let missing = measured;
  while (missing.length > 0 && Date.now() < deadline) {
    await delay(POLL_MS);
    const lines = (await readFile(received, 'utf8')).split('\n').filter((line) => line !== '');
    const events = lines.map((line) => JSON.parse(line) as BilledEvent);
    const delivered = new Map(events.map(({ id, quantity }) => [id, quantity]));
    missing = measured.filter(({ id, quantity }) => delivered.get(id) !== quantity);
  }
  for (const { id, metric } of missing.slice(0, MOST_REPORTED)) {
    decision.fail('misbilled', `${metric} ${id}: not delivered as measured`);
  }
}
