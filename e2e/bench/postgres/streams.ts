import type { LedgerDatabase } from '../../../operator/settings/settings.ts';
import { append } from '../ledger-append.ts';
import { benchWindow } from '../ledger-events.ts';
import { openStream } from './open-stream.ts';

const BATCH_EVENTS = 1_000;

/** Events a second that so many streams of one database take together, each from one queue. */
export async function measureStreams(
  database: LedgerDatabase,
  streams: number,
  seconds: number,
): Promise<number> {
  const ledgers = await Promise.all(
    Array.from({ length: streams }, (_, index) => openStream(database, `of-${streams}-${index}`)),
  );
  // The tables of the week are there when the time begins.
  await Promise.all(ledgers.map((ledger) => append(ledger, benchWindow(0, BATCH_EVENTS))));
  const from = performance.now();
  const until = from + seconds * 1_000;
  const counts = await Promise.all(
    ledgers.map(async (ledger) => {
      let window = 1;
      while (performance.now() < until) {
        await append(ledger, benchWindow(window, BATCH_EVENTS));
        window += 1;
      }
      return (window - 1) * BATCH_EVENTS;
    }),
  );
  const took = (performance.now() - from) / 1_000;
  await Promise.all(ledgers.map((ledger) => ledger.close()));
  return counts.reduce((a, b) => a + b, 0) / took;
}
