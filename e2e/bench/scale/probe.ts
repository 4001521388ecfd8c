import { monitorEventLoopDelay } from 'node:perf_hooks';

/**
 * Loaded into the operator's process before it (`--import`): answers its parent's messages with what
 * can be seen only from inside. It neither keeps the process alive nor touches the operator.
 */
const RESOLUTION_MS = 10;
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
delay.enable();

process.on('message', (message) => {
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
