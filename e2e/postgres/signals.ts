import { readFileSync } from 'node:fs';
import type { PostgresServer } from '../../operator/ledger/testing/postgres-server.ts';

/**
 * Sends a signal to a server and all of its processes at once, as far as anything is at once; to nobody when it
 * has ended, since its process id may be another's by then.
 */
export function signalAll(server: PostgresServer, signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
  if (server.hasEnded()) return;
  // Stopped first, so that it starts no process meanwhile and hears of no child's end.
  if (signal === 'SIGKILL') server.kill('SIGSTOP');
  for (const child of childrenOf(server.pid)) send(child, signal);
  server.kill(signal);
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
  // 0 and below would be groups of processes, our own among them.
  if (!Number.isSafeInteger(pid) || pid <= 1) throw new RangeError(`signal: no process: "${pid}"`);
  try {
    process.kill(pid, signal);
  } catch {
    // It is gone.
  }
}
