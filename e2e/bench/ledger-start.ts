import { spawn } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { directoryBytes } from '../../operator/ledger/leveldb/files.ts';
import { append, openBenchLedger } from './ledger-append.ts';
import { benchWindow } from './ledger-events.ts';

export interface StartFigures {
  /** Events a second while filling, making the events included. */
  readonly fillRate: number;
  /** From starting a process to its ledger being open. */
  readonly readySeconds: number;
  readonly drained: number;
  readonly drainRate: number;
  readonly drainRssMiB: number;
  readonly bytesPerEvent: number;
}

const BATCH_EVENTS = 1_000;
/** As the operator runs (config/operator/stateful-set.yaml). */
const MEMORY_FLAGS = ['--max-old-space-size=576'];
const MAX_DRAINED = 2_000_000;

/** Fills a ledger, then starts a process on it that opens it and reads a backlog with a cursor. */
export async function measureStart(directory: string, events: number): Promise<StartFigures> {
  const from = performance.now();
  const ledger = await openBenchLedger(directory);
  for (let window = 0; window * BATCH_EVENTS < events; window++) {
    await append(ledger, benchWindow(window, BATCH_EVENTS));
  }
  await ledger.close();
  const fillSeconds = (performance.now() - from) / 1_000;

  const drained = Math.min(events, MAX_DRAINED);
  const startedAt = performance.now();
  const reader = join(import.meta.dirname, 'ledger-reader.ts');
  const child = spawn(process.execPath, [...MEMORY_FLAGS, reader, directory, String(drained)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let readySeconds = 0;
  let text = '';
  for await (const chunk of child.stdout) {
    if (text === '') readySeconds = (performance.now() - startedAt) / 1_000;
    text += String(chunk);
  }
  const [, seconds = 'NaN', rssMiB = 'NaN'] = text.trim().split(/\s+/);
  return {
    fillRate: events / fillSeconds,
    readySeconds,
    drained,
    drainRate: drained / Number(seconds),
    drainRssMiB: Number(rssMiB),
    bytesPerEvent: (await segmentBytes(directory)) / events,
  };
}

async function segmentBytes(directory: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(directory)) {
    if (name.startsWith('segment-')) bytes += await directoryBytes(join(directory, name));
  }
  return bytes;
}
