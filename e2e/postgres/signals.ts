import { readFileSync } from 'node:fs';

/** Sends a signal to a postmaster and all of its processes at once, as far as anything is at once. */
export function signalAll(postmaster: number, signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
  // Stopped first, so that it starts no process meanwhile and hears of no child's end.
  if (signal === 'SIGKILL') send(postmaster, 'SIGSTOP');
  for (const child of childrenOf(postmaster)) send(child, signal);
  send(postmaster, signal);
}

function childrenOf(pid: number): readonly number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    return text === '' ? [] : text.split(' ').map(Number);
  } catch {
    return [];
  }
}

/** A process that has ended by itself is no fault. */
function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It is gone.
  }
}
