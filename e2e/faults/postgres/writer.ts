/**
 * A process of its own that appends window after window to a stream, each until it is acknowledged, and tells so on
 * standard output; until standard input ends. Arguments: port and name of the database, the stream, LEDGER_DURABILITY, and
 * `budgets` where it keeps prepaid balances beside, or nothing; and DATA_DIR where it goes through a spool, or nothing: then it ends
 * when everything has followed.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type {
  AppendOutcome,
  LedgerFailure,
  WriteOutcome,
} from '../../../operator/ledger/ledger.ts';
import { METER_STATE_KEY } from '../../../operator/ledger/meter-ledger.ts';
import { openPostgresLedger } from '../../../operator/ledger/postgres/open-postgres-ledger.ts';
import { postgresOptions } from '../../../operator/ledger/testing/postgres-options.ts';
import { TEST_USER } from '../../../operator/ledger/testing/postgres-server.ts';
import { beginSpooled } from '../../../operator/ledger/testing/spooled-ledger.ts';
import { errorText } from '../../../operator/model/error-text.ts';
import { streamBalances } from './balances.ts';
import { insist as insistOn, tell } from './speech.ts';
import { windowEnd, windowEvents } from './windows.ts';

const ANSWER_MS = 1_500;
const RETRY_MS = 20;
const CURSOR_EVERY = 3;
const REPEAT_EVERY = 5;
/** Through a spool, and longer the more waits: windows come by the clock, not as fast as a disk takes them. */
const PAUSE_MS = 3;

const [port = '', name = '', stream = '', durability = 'standby', beside = '', dataDir = ''] =
  process.argv.slice(2);
const ending = new AbortController();
process.stdin.on('end', () => ending.abort());
process.stdin.resume();

/** Tries until it is taken; undefined when it never will be, or the process is to end. */
async function insist(
  attempt: () => Promise<AppendOutcome | WriteOutcome>,
): Promise<Exclude<AppendOutcome | WriteOutcome, LedgerFailure> | undefined> {
  const outcome = await insistOn(attempt, ending.signal);
  if (outcome?.kind !== 'failed') return outcome;
  tell({ kind: 'stopped', cause: outcome.cause, message: outcome.message });
  ending.abort();
  return undefined;
}

const opened = await openPostgresLedger(
  postgresOptions(
    { host: '127.0.0.1', port: Number(port), name, user: TEST_USER, tls: { mode: 'disable' } },
    {
      source: stream,
      region: stream,
      durability: durability === 'storage' ? 'storage' : 'standby',
      answerMs: ANSWER_MS,
    },
  ),
);
if (opened.kind === 'failed') throw new Error(opened.message);
const { ledger } = opened;
const spooled = dataDir === '' ? undefined : await beginSpooled({ ledger, dataDir });
const meter = spooled ?? ledger;
const enough = new AbortController();
const draining = spooled?.run(enough.signal).catch((error: unknown) => {
  tell({ kind: 'stopped', cause: 'corrupt', message: errorText(error) });
  enough.abort();
});
const balances = beside === 'budgets' ? streamBalances(ledger) : undefined;
let cursor = 0;
for (let window = 0; !ending.signal.aborted; window++) {
  const stored = await insist(() =>
    meter.append({
      events: windowEvents(window),
      records: [
        { key: 'journal', value: String(window) },
        { key: METER_STATE_KEY, value: `closed ${window}` },
      ],
      windowEnd: windowEnd(window),
    }),
  );
  if (stored?.kind !== 'appended') break;
  if (window % CURSOR_EVERY === 0) {
    await moveCursor();
  }
  let repeats = 0;
  if (window % REPEAT_EVERY === 0) {
    const again = windowEvents(Math.floor(window / 2));
    const outcome = await insist(() => meter.append({ events: again }));
    repeats = again.length;
    const isStored = spooled === undefined && outcome?.kind === 'appended';
    if (isStored && outcome.outcomes.some((word) => word !== 'duplicate')) {
      tell({ kind: 'wrong', text: `a repeat was ${outcome.outcomes.join(', ')}` });
    }
  }
  balances?.reach(window);
  // As the operator does: what fails is left as it is, and done with the next round.
  await balances?.round().catch(() => undefined);
  const credits = balances?.credits() ?? 0;
  tell({ kind: 'acknowledged', window, head: stored.head, cursor, credits, repeats });
  if (spooled !== undefined) await delay(PAUSE_MS * (1 + spooled.waiting().batches));
}
while (spooled?.spooling.isEmpty() === false && !enough.signal.aborted) await delay(RETRY_MS);
enough.abort();
await draining;
await spooled?.close();
await ledger.close();

/** To the newest event; through a spool only where the database takes it at once. */
async function moveCursor(): Promise<void> {
  const head = ledger.head();
  const move = () => ledger.commitCursor('lago', head);
  const moved = spooled === undefined ? await insist(move) : await move();
  if (moved !== undefined && moved.kind !== 'failed') cursor = head;
}
