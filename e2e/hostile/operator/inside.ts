import { openSync, readdirSync, readSync } from 'node:fs';
import { hrtime } from 'node:process';

/**
 * Loaded into the operator's process before it (`--import`): tells its parent every second when timers of
 * the main thread were late, and how much of that Linux had the thread wait for a processor, or, while it slept,
 * a thread of the garbage collector that it was waiting for. It neither keeps the process alive nor touches
 * the operator.
 */
const TICK_MS = 20;
const REPORT_MS = 1_000;
/** Less is everybody's. */
const LEAST_MS = 20;
const NANOS_PER_MS = 1e6;
const TASKS = '/proc/self/task';
const buffer = Buffer.alloc(128);
const main = openSync('/proc/thread-self/schedstat', 'r');
/** Those that V8 has started by now; the first is the main thread. */
const helpers = readdirSync(TASKS)
  .slice(1)
  .map((thread) => openSync(`${TASKS}/${thread}/schedstat`, 'r'));

/** How long a thread has run so far, and has been ready to run without a processor. */
function timesOf(file: number): readonly [ranMs: number, waitedMs: number] {
  const length = readSync(file, buffer, 0, buffer.length, 0);
  const [ran, waited] = buffer.toString('latin1', 0, length).split(' ');
  return [Number(ran) / NANOS_PER_MS, Number(waited) / NANOS_PER_MS];
}

const helpersWaited = (): number[] => helpers.map((file) => timesOf(file)[1]);

let last = Number(hrtime.bigint()) / NANOS_PER_MS;
let [lastRan, lastWaited] = timesOf(main);
let lastOfHelpers = helpersWaited();
let stalls: object[] = [];

setInterval(() => {
  const now = Number(hrtime.bigint()) / NANOS_PER_MS;
  const [ran, waited] = timesOf(main);
  const ofHelpers = helpersWaited();
  const longest = ofHelpers.reduce(
    (most, wait, index) => Math.max(most, wait - (lastOfHelpers[index] ?? 0)),
    0,
  );
  const late = now - last - TICK_MS;
  const queued = waited - lastWaited;
  // While it runs it waits for nobody.
  const asleep = Math.max(0, now - last - (ran - lastRan) - queued);
  if (late >= LEAST_MS) {
    stalls.push({ from: last, to: now, late, waited: queued + Math.min(longest, asleep) });
  }
  last = now;
  lastRan = ran;
  lastWaited = waited;
  lastOfHelpers = ofHelpers;
}, TICK_MS).unref();

setInterval(() => {
  process.send?.({ stalls });
  stalls = [];
}, REPORT_MS).unref();
process.channel?.unref();
