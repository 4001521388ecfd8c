/**
 * A process that appends window after window until it is killed, for crash tests. Arguments:
 * directory, events per segment, then optionally a failpoint and the number of its hit at which the
 * process kills itself. Prints one line `{window, head}` for each acknowledged window.
 */
import { writeSync } from 'node:fs';
import type { Ledger } from '../ledger.ts';
import type { Failpoints } from '../leveldb/failpoints.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from './events.ts';
import { openTestLedger } from './level-ledger.ts';

const RETAIN_EVERY = 10;
const FAR_FUTURE = Date.UTC(2100, 0, 1);

/** Events of the window with this number: uneven, so that windows do not line up with segments. */
export function windowSize(window: number): number {
  return 4 + (window % 5);
}

async function run(directory: string, segmentEvents: number, failpoint: Failpoints): Promise<void> {
  const ledger = await openTestLedger(directory, {
    failpoint,
    segmentLimits: { events: segmentEvents, bytes: Number.MAX_SAFE_INTEGER },
  });
  const last = Number((await ledger.record('journal')) ?? 0);
  // The newest window again, as after a restart that does not know whether it was stored.
  for (let window = Math.max(1, last); ; window++) {
    await appendWindow(ledger, window);
    if (window % RETAIN_EVERY === 0) await ledger.retain(FAR_FUTURE);
  }
}

async function appendWindow(ledger: Ledger, window: number): Promise<void> {
  const windowStart = TEST_WINDOW_START + window * TEST_WINDOW_MS;
  const outcome = await ledger.append({
    events: testWindow(windowStart, windowSize(window)),
    records: [{ key: 'journal', value: String(window) }],
    windowEnd: windowStart + TEST_WINDOW_MS,
  });
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  const moved = await ledger.commitCursor('noop', outcome.head);
  if (moved.kind === 'failed') throw new Error(moved.message);
  writeSync(1, `${JSON.stringify({ window, head: outcome.head })}\n`);
}

if (process.argv[1] === import.meta.filename) {
  const [directory = '', segmentEvents = '50', step, hits = '1'] = process.argv.slice(2);
  let seen = 0;
  await run(directory, Number(segmentEvents), async (reached) => {
    if (reached !== step) return;
    seen += 1;
    if (seen === Number(hits)) process.kill(process.pid, 'SIGKILL');
  });
}
