/**
 * A process of its own that appends window after window to a stream, through a spool while the database is away, until it is
 * killed, or standard input ends and everything has followed. Arguments: port and name of the database, DATA_DIR. Prints one line
 * `{window, head}` for each acknowledged window, `head` always 0, and one with `spooled` while the database does not have it.
 */
import { writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Ledger } from '../ledger.ts';
import { METER_STATE_KEY } from '../meter-ledger.ts';
import { openPostgresLedger } from '../postgres/open-postgres-ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from './events.ts';
import { postgresOptions } from './postgres-options.ts';
import { TEST_USER } from './postgres-server.ts';
import { beginSpooled } from './spooled-ledger.ts';
import { windowSize } from './writer-process.ts';

const ANSWER_MS = 300;
/** Longer the more waits, so that what waits becomes less once the database is back. */
const PAUSE_MS = 3;

const [port = '', name = '', dataDir = ''] = process.argv.slice(2);
const stopping = new AbortController();
process.stdin.on('end', () => stopping.abort());
process.stdin.resume();

/** Comes as soon as the database does. */
async function open(): Promise<Ledger> {
  for (;;) {
    const database = { host: '127.0.0.1', port: Number(port), name, user: TEST_USER };
    const outcome = await openPostgresLedger(
      postgresOptions({ ...database, tls: { mode: 'disable' } }, { answerMs: ANSWER_MS }),
    );
    if (outcome.kind === 'opened') return outcome.ledger;
    if (outcome.cause !== 'retryable') throw new Error(outcome.message);
    await delay(PAUSE_MS);
  }
}

const ledger = await open();
const spooled = await beginSpooled({ ledger, dataDir });
const enough = new AbortController();
const draining = spooled.run(enough.signal);
const last = Number((await spooled.record('journal')) ?? 0);
// The newest window again, as after a restart that does not know whether it was stored.
for (let window = Math.max(1, last); !stopping.signal.aborted; ) {
  const windowStart = TEST_WINDOW_START + window * TEST_WINDOW_MS;
  const outcome = await spooled.append({
    events: testWindow(windowStart, windowSize(window)),
    records: [
      { key: 'journal', value: String(window) },
      { key: METER_STATE_KEY, value: `closed ${window}` },
    ],
    windowEnd: windowStart + TEST_WINDOW_MS,
  });
  if (outcome.kind === 'appended') {
    const isSpooled = !spooled.spooling.isEmpty();
    writeSync(1, `${JSON.stringify({ window, head: 0, spooled: isSpooled })}\n`);
    window += 1;
  } else if (outcome.cause !== 'retryable') throw new Error(outcome.message);
  await delay(PAUSE_MS * (1 + spooled.waiting().batches));
}
while (!spooled.spooling.isEmpty()) await Promise.race([draining, delay(PAUSE_MS)]);
enough.abort();
await draining;
await spooled.close();
await ledger.close();
