import { openSync, readSync } from 'node:fs';
import { hrtime } from 'node:process';
import type { Stretch } from './stalls.ts';

/**
 * A process with nothing to do but a timer. Where that is late although the process did not stand in the queue
 * for a processor, which Linux counts, the machine stood still, and everybody on it.
 */
const TICK_MS = 10;
/** Less is the timer's own. */
const LEAST_MS = 20;
const NANOS_PER_MS = 1e6;
const MOST_STRETCHES = 10_000;
const buffer = Buffer.alloc(128);
const main = openSync('/proc/thread-self/schedstat', 'r');

function waitedMs(): number {
  const length = readSync(main, buffer, 0, buffer.length, 0);
  return Number(buffer.toString('latin1', 0, length).split(' ')[1]) / NANOS_PER_MS;
}

let still: Stretch[] = [];
let last = Number(hrtime.bigint()) / NANOS_PER_MS;
let lastWaited = waitedMs();

function poll(): void {
  const now = Number(hrtime.bigint()) / NANOS_PER_MS;
  const waited = waitedMs();
  const ms = now - last - TICK_MS - (waited - lastWaited);
  if (ms >= LEAST_MS && still.length < MOST_STRETCHES) still.push({ from: now - ms, to: now });
  last = now;
  lastWaited = waited;
}

setInterval(poll, TICK_MS);

process.on('message', ({ id }: { readonly id: number }) => {
  poll();
  process.send?.({ id, still });
  still = [];
});
process.on('disconnect', () => process.exit());
process.send?.({ id: 0 });
