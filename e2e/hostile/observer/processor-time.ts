import { readdirSync, readFileSync } from 'node:fs';

const NANOS_PER_MS = 1e6;

/**
 * For how long the threads of a process have been ready to run without a processor so far, milliseconds:
 * the main thread, and whichever other has waited longest. What the machine is to blame for on a busy one
 * is told by it from what a process takes. 0 of a process that is gone.
 */
export function waitedMs(pid: number | undefined): number {
  if (pid === undefined) return 0;
  try {
    const others = readdirSync(`/proc/${pid}/task`).filter((thread) => thread !== String(pid));
    const longest = others.reduce((most, thread) => Math.max(most, waitOf(pid, thread)), 0);
    return waitOf(pid, String(pid)) + longest;
  } catch {
    return 0;
  }
}

/** The same of the main thread alone, which answers probes. */
export function mainWaitedMs(pid: number | undefined): number {
  return pid === undefined ? 0 : waitOf(pid, String(pid));
}

function waitOf(pid: number, thread: string): number {
  try {
    const text = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8');
    return Number(text.split(' ')[1]) / NANOS_PER_MS;
  } catch {
    return 0;
  }
}
