import { openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { PerformanceObserver, performance } from 'node:perf_hooks';
import { hrtime } from 'node:process';

/**
 * Loaded into the operator's process before it (`--import`): tells its parent every second when timers of
 * the main thread were late, and how much of that Linux had the thread wait for a processor, or, while it did not run,
 * a thread that it was waiting for, of the garbage collector or of the pool of libuv, or the hypervisor took the processor
 * away. Whoever gives the pool something to do waits until those have run that were woken before (glibc, `pthread_cond_signal`). It
 * neither keeps the process alive nor touches the operator. So that a stall can be told apart, it also says for how
 * long of it the thread ran, and collected garbage.
 */
const TICK_MS = 20;
const REPORT_MS = 1_000;
/** Less is everybody's. */
const LEAST_MS = 20;
const NANOS_PER_MS = 1e6;
/** Of the counts in /proc/stat. */
const JIFFY_MS = 10;
const TASKS = '/proc/self/task';
const buffer = Buffer.alloc(128);
const main = openSync('/proc/thread-self/schedstat', 'r');
/** By the number of the thread. */
const helpers = new Map<string, number>();
/** Threads of V8, and of the pool of libuv, which are started when there is something to do for the first time. */
const HELPER = /^(V8Worker|libuv-worker)/;

function findHelpers(): void {
  for (const thread of readdirSync(TASKS)) {
    if (helpers.has(thread)) continue;
    try {
      if (!HELPER.test(readFileSync(`${TASKS}/${thread}/comm`, 'latin1'))) continue;
      helpers.set(thread, openSync(`${TASKS}/${thread}/schedstat`, 'r'));
    } catch {
      // It has ended.
    }
  }
}
findHelpers();

/** How long a thread has run so far, and has been ready to run without a processor. */
function timesOf(file: number): readonly [ranMs: number, waitedMs: number] {
  const length = readSync(file, buffer, 0, buffer.length, 0);
  const [ran, waited] = buffer.toString('latin1', 0, length).split(' ');
  return [Number(ran) / NANOS_PER_MS, Number(waited) / NANOS_PER_MS];
}

const statistics = openSync('/proc/stat', 'r');
const processors = Buffer.alloc(128 * (availableParallelism() + 1));

/** How long the hypervisor has kept each processor for somebody else so far (proc(5): "stolen time"). */
function stolen(): number[] {
  const length = readSync(statistics, processors, 0, processors.length, 0);
  const lines = processors.toString('latin1', 0, length).matchAll(/^cpu\d+ (.*)$/gm);
  return Array.from(lines, ([, counts = '']) => Number(counts.split(' ')[7] ?? 0) * JIFFY_MS);
}

/** The most that one of several counts has grown by; of one that is new nothing is known. */
function mostGrown(counts: readonly number[], before: readonly number[]): number {
  return Math.max(0, ...counts.map((count, index) => count - (before[index] ?? count)));
}

const helpersWaited = (): number[] => [...helpers.values()].map((file) => timesOf(file)[1]);

/** When garbage was collected since the last report, on the clock of `hrtime`. */
let collections: { readonly from: number; readonly to: number }[] = [];
const clockBehind = Number(hrtime.bigint()) / NANOS_PER_MS - performance.now();
new PerformanceObserver((list) => {
  for (const { startTime, duration } of list.getEntries()) {
    const from = startTime + clockBehind;
    collections.push({ from, to: from + duration });
  }
}).observe({ entryTypes: ['gc'] });

function collected(from: number, to: number): number {
  return collections.reduce(
    (sum, each) => sum + Math.max(0, Math.min(to, each.to) - Math.max(from, each.from)),
    0,
  );
}

let last = Number(hrtime.bigint()) / NANOS_PER_MS;
let [lastRan, lastWaited] = timesOf(main);
let lastOfHelpers = helpersWaited();
let lastStolen = stolen();
let stalls: Readonly<Record<'from' | 'to' | 'late' | 'waited' | 'ran', number>>[] = [];

setInterval(() => {
  const now = Number(hrtime.bigint()) / NANOS_PER_MS;
  const [ran, waited] = timesOf(main);
  const ofHelpers = helpersWaited();
  const stolenByNow = stolen();
  const late = now - last - TICK_MS;
  const queued = waited - lastWaited;
  // What it ran itself is its own, whatever else happened: neither counts while a thread runs.
  const halted = Math.max(0, now - last - (ran - lastRan) - queued);
  if (late >= LEAST_MS) {
    const excuse = mostGrown(ofHelpers, lastOfHelpers) + mostGrown(stolenByNow, lastStolen);
    const hindered = queued + Math.min(excuse, halted);
    stalls.push({ from: last, to: now, late, waited: hindered, ran: ran - lastRan });
  }
  last = now;
  lastRan = ran;
  lastWaited = waited;
  lastOfHelpers = ofHelpers;
  lastStolen = stolenByNow;
}, TICK_MS).unref();

setInterval(() => {
  const reported = stalls.map((each) => ({ ...each, collected: collected(each.from, each.to) }));
  process.send?.({ stalls: reported });
  findHelpers();
  stalls = [];
  collections = [];
}, REPORT_MS).unref();
process.channel?.unref();
