/**
 * A process of its own that appends window after window to a stream, each until it is acknowledged, and tells so on
 * standard output; until standard input ends. Arguments: port and name of the database, the stream, LEDGER_DURABILITY, and
 * `budgets` where it keeps prepaid balances beside, or nothing.
 */
import type {
  AppendOutcome,
  LedgerFailure,
  WriteOutcome,
} from '../../../operator/ledger/ledger.ts';
import { openPostgresLedger } from '../../../operator/ledger/postgres/open-postgres-ledger.ts';
import { postgresOptions } from '../../../operator/ledger/testing/postgres-options.ts';
import { TEST_USER } from '../../../operator/ledger/testing/postgres-server.ts';
import { streamBalances } from './balances.ts';
import { insist as insistOn, report } from './speech.ts';
import { windowEnd, windowEvents } from './windows.ts';

const ANSWER_MS = 1_500;
const CURSOR_EVERY = 3;
const REPEAT_EVERY = 5;

const [port = '', name = '', stream = '', durability = 'standby', beside = ''] =
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
  report({ kind: 'stopped', cause: outcome.cause, message: outcome.message });
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
const balances = beside === 'budgets' ? streamBalances(ledger) : undefined;
let cursor = 0;
for (let window = 0; !ending.signal.aborted; window++) {
  const stored = await insist(() =>
    ledger.append({
      events: windowEvents(window),
      records: [{ key: 'journal', value: String(window) }],
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
    const outcome = await insist(() => ledger.append({ events: again }));
    repeats = again.length;
    if (outcome?.kind === 'appended' && outcome.outcomes.some((word) => word !== 'duplicate')) {
      report({ kind: 'wrong', text: `a repeat was ${outcome.outcomes.join(', ')}` });
    }
  }
  balances?.reach(window);
  // As the operator does: what fails is left as it is, and done with the next round.
  await balances?.round().catch(() => undefined);
  const credits = balances?.credits() ?? 0;
  report({ kind: 'acknowledged', window, head: stored.head, cursor, credits, repeats });
}
await ledger.close();

/** To the newest event. */
async function moveCursor(): Promise<void> {
  const head = ledger.head();
  const moved = await insist(() => ledger.commitCursor('lago', head));
  if (moved !== undefined) cursor = head;
}
