/**
 * Fills a volume while a ledger is being written on it, gives room back, goes on, and looks at what
 * is there. Arguments: a directory; how many KiB to leave free; and, where the disk only looks full,
 * the control file and the trace of a shim, without which the directory must be a small volume. Prints
 * one line of JSON: what was acknowledged, refused, and found wrong.
 */
import { appendFile, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Ledger } from '../../operator/ledger/ledger.ts';
import { systemFreeBytes } from '../../operator/ledger/leveldb/disk-use.ts';
import {
  TEST_WINDOW_MS,
  TEST_WINDOW_START,
  testWindow,
} from '../../operator/ledger/testing/events.ts';
import { openTestLedger } from '../../operator/ledger/testing/level-ledger.ts';
import { openFaultyDisk } from './subject/disk.ts';

const WINDOW_EVENTS = 20;
const REFUSALS = 5;
const RESERVE_BYTES = 256 * 1024;
const [directory = '', leaveKiB = '0', control, trace = ''] = process.argv.slice(2);
const leaveBytes = Number(leaveKiB) * 1024;
const shim = control === undefined ? undefined : openFaultyDisk(control, trace);
const ballast = join(directory, 'ballast');
const dataDirectory = join(directory, 'data');

let window = 0;
let acknowledged = 0;
const causes = new Set<string>();

/** Appends windows until as many were stored, or refused one after the other. */
async function append(ledger: Ledger, count: number): Promise<'stored' | 'refused'> {
  let refusals = 0;
  for (let stored = 0; stored < count; ) {
    const windowStart = TEST_WINDOW_START + window * TEST_WINDOW_MS;
    const outcome = await ledger.append({
      events: testWindow(windowStart, WINDOW_EVENTS),
      records: [{ key: 'journal', value: String(window) }],
      windowEnd: windowStart + TEST_WINDOW_MS,
    });
    if (outcome.kind === 'appended') {
      acknowledged = outcome.head;
      window += 1;
      stored += 1;
      refusals = 0;
      continue;
    }
    causes.add(outcome.cause);
    refusals += 1;
    if (refusals === REFUSALS) return 'refused';
  }
  return 'stored';
}

async function fillDisk(): Promise<void> {
  if (shim !== undefined) {
    shim.setRoom(leaveBytes);
    return;
  }
  const { bavail, bsize } = await statfs(directory);
  const bytes = bavail * bsize - leaveBytes;
  for (let rest = bytes; rest > 0; rest -= 65_536) {
    await appendFile(ballast, Buffer.alloc(Math.min(rest, 65_536)));
  }
}

async function giveRoom(): Promise<void> {
  shim?.repair();
  await rm(ballast, { force: true });
}

// Watermarks would refuse in good time; here every write is to meet the full disk itself.
const options = { reserveBytes: RESERVE_BYTES, freeBytes: async () => 1024 ** 4 };
let ledger = await openTestLedger(dataDirectory, options);
await append(ledger, 20);
await fillDisk();
const whileFull = await append(ledger, 5_000);
const readWhileFull = await ledger.read(0, 10);
await giveRoom();
const afterwards = await append(ledger, 20);
await ledger.close();

ledger = await openTestLedger(dataDirectory, {
  reserveBytes: RESERVE_BYTES,
  freeBytes: systemFreeBytes,
});
const problems = [...ledger.stats().problems, ...(await ledger.verify()).errors];
if (ledger.head() < acknowledged) problems.push(`head is ${ledger.head()} of ${acknowledged}`);
if (ledger.head() % WINDOW_EVENTS !== 0) problems.push(`half a window: ${ledger.head()}`);
if ((await ledger.record('journal')) !== String(window - 1)) problems.push('journal is behind');
await ledger.close();
console.log(
  JSON.stringify({
    acknowledged,
    whileFull,
    afterwards,
    reading: readWhileFull.kind,
    causes: [...causes].toSorted(),
    problems,
  }),
);
