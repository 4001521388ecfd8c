import { openSync, readdirSync, readSync } from 'node:fs';

/**
 * Loaded into the operator's process before it (`--import`): tells its parent every second how late
 * timers of the main thread were at most, and how much of it the machine is to blame for, which had the
 * thread wait for a processor, or a thread of the garbage collector that it was waiting for. It neither keeps
 * the process alive nor touches the operator.
 */
const TICK_MS = 20;
const REPORT_MS = 1_000;
const NANOS_PER_MS = 1e6;
const TASKS = '/proc/self/task';
const buffer = Buffer.alloc(128);
const main = openSync('/proc/thread-self/schedstat', 'r');
/** Those that V8 has started by now; the first is the main thread. */
const helpers = readdirSync(TASKS)
  .slice(1)
  .map((thread) => openSync(`${TASKS}/${thread}/schedstat`, 'r'));

/** How long a thread has been ready to run without a processor so far. */
function waitedMs(file: number): number {
  const length = readSync(file, buffer, 0, buffer.length, 0);
  return Number(buffer.toString('latin1', 0, length).split(' ')[1]) / NANOS_PER_MS;
}

let last = performance.now();
let lastWaited = waitedMs(main);
let lastOfHelpers = helpers.map(waitedMs);
let own = 0;
let late = 0;

setInterval(() => {
  const now = performance.now();
  const waited = waitedMs(main);
  const ofHelpers = helpers.map(waitedMs);
  const longest = ofHelpers.reduce(
    (most, wait, index) => Math.max(most, wait - (lastOfHelpers[index] ?? 0)),
    0,
  );
  const lateness = now - last - TICK_MS;
  late = Math.max(late, lateness);
  own = Math.max(own, lateness - (waited - lastWaited) - longest);
  last = now;
  lastWaited = waited;
  lastOfHelpers = ofHelpers;
}, TICK_MS).unref();

setInterval(() => {
  process.send?.({ stall: own, late });
  own = 0;
  late = 0;
}, REPORT_MS).unref();
process.channel?.unref();
