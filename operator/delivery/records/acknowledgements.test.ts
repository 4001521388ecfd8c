import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { createAcknowledgements } from './acknowledgements.ts';
import { createDeliveryRecords } from './delivery-records.ts';

setFlagsFromString('--expose-gc');
const collect: unknown = runInNewContext('gc');

/** Bytes of buffers in use. */
function bufferBytes(): number {
  if (typeof collect !== 'function') throw new Error('the heap cannot be collected');
  collect();
  collect();
  return process.memoryUsage().arrayBuffers;
}

const CHUNKS = 400;
const CHUNK_EVENTS = 4_096;

/** What else goes through Node's pool of small buffers meanwhile. */
function passing(): void {
  for (let index = 0; index < 40; index += 1) Buffer.from('x'.repeat(2_000));
}

test('a bit for each event keeps the pools alive that its bytes were cut from', async () => {
  const ledger = createMemoryLedger();
  const records = createDeliveryRecords(ledger, 'hook');
  const acknowledgements = createAcknowledgements(ledger, records);
  const before = bufferBytes();
  for (let chunk = 0; chunk < CHUNKS; chunk += 1) {
    for (const place of [7, 9]) {
      const sequences = [chunk * CHUNK_EVENTS + place];
      await ledger.writeRecords(acknowledgements.recordsOf(sequences));
      acknowledgements.written(sequences);
      passing();
    }
  }
  const most = 2 * CHUNKS * (CHUNK_EVENTS / 8);
  expect(bufferBytes() - before).toBeLessThan(most);

  const restarted = createAcknowledgements(ledger, records);
  await restarted.load();
  passing();
  expect(bufferBytes() - before).toBeLessThan(2 * most);
  expect(acknowledgements.has(7)).toBe(true);
  expect(restarted.has(7)).toBe(true);
  expect(restarted.has(8)).toBe(false);
});
