import { parentPort } from 'node:worker_threads';
import { type ForeignAnswer, type ForeignBytes, readForeignBytes } from './foreign-answer.ts';

/** What the worker says when it has read something. */
export interface WorkerAnswer {
  readonly answer: ForeignAnswer;
  /** Processor time that it took, milliseconds. */
  readonly cpuMs: number;
}

/**
 * The thread in which answers of foreign API servers are read, one after the other. What an answer makes
 * throw ends the thread, as running out of memory does: the main thread knows whose it was.
 */
parentPort?.on('message', (given: ForeignBytes) => {
  const before = process.threadCpuUsage();
  const answer = readForeignBytes(given);
  const { user, system } = process.threadCpuUsage(before);
  const reported: WorkerAnswer = { answer, cpuMs: (user + system) / 1000 };
  parentPort?.postMessage(reported, []);
});
