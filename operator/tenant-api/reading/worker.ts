import { parentPort } from 'node:worker_threads';
import { type ForeignAnswer, type ForeignBytes, readForeignBytes } from './foreign-answer.ts';

/** The worker's message after a read. */
export interface WorkerAnswer {
  readonly answer: ForeignAnswer;
  /** Processor time of the read, milliseconds. */
  readonly cpuMs: number;
}

/**
 * The thread that reads answers of foreign API servers, one after the other. An answer that throws,
 * or needs too much memory, ends the thread. The main thread knows whose answer it was.
 */
parentPort?.on('message', (given: ForeignBytes) => {
  const before = process.threadCpuUsage();
  const answer = readForeignBytes(given);
  const { user, system } = process.threadCpuUsage(before);
  const reported: WorkerAnswer = { answer, cpuMs: (user + system) / 1000 };
  parentPort?.postMessage(reported, []);
});
