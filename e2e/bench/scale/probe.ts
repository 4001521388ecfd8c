import { monitorEventLoopDelay } from 'node:perf_hooks';
import { writeHeapSnapshot } from 'node:v8';

/**
 * Loaded into the operator's process before it (`--import`): answers its parent's messages with what
 * can be seen only from inside. It neither keeps the process alive nor touches the operator.
 */
const RESOLUTION_MS = 10;
/** What follows is the file that the heap is written to; the process takes a while for it, and memory. */
const SNAPSHOT = 'snapshot:';
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
delay.enable();

process.on('message', (message) => {
  if (typeof message === 'string' && message.startsWith(SNAPSHOT)) {
    process.send?.(writeHeapSnapshot(message.slice(SNAPSHOT.length)));
  }
  if (message === 'reset') delay.reset();
  if (message === 'stalls') {
    const beyond = (nanos: number): number => Math.max(0, nanos / 1e6 - RESOLUTION_MS);
    process.send?.({ p99: beyond(delay.percentile(99)), max: beyond(delay.max) });
  }
  if (message === 'heap') {
    globalThis.gc?.();
    process.send?.(process.memoryUsage());
  }
});
process.channel?.unref();
