import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { EvidenceFiles } from './evidence-files.ts';
import { closing, podsOf } from './testing/closings.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const START = Date.UTC(2026, 2, 1, 8);
/** A file of these two windows from an earlier release. */
const NAME = '2026-03-01-1.evidence';
const CLOSED = [closing(START, podsOf('a', 3)), closing(START + MINUTE, podsOf('a', 4))];

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'explanations-'));
  await cp(join(import.meta.dirname, 'testing', NAME), join(directory, NAME));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

async function expectAllFound(): Promise<void> {
  const files = new EvidenceFiles(directory);
  for (const [index, { events }] of CLOSED.entries()) {
    for (const event of events) {
      const found = await files.find(event);
      if (found?.kind !== 'found') throw new Error(`${event.window_end}: none`);
      expect(found.explanation).toMatchObject({ addsUp: true });
      expect(found.explanation.shares).toHaveLength(3 + index);
    }
  }
}

/**
 * A frame of one tenant as earlier releases wrote it. Its table had only the place of the block.
 */
function asMarkedMfe1(frame: Buffer): Buffer {
  const [bytes, changed, valued] = [
    frame.readDoubleBE(8),
    frame.readUInt32BE(36),
    frame.readUInt32BE(40),
  ];
  const [at, end] = [bytes - valued - changed, bytes - valued];
  const places = JSON.parse(zstdDecompressSync(frame.subarray(at, end)).toString());
  const blocks = (places as readonly (readonly unknown[])[]).map((place) => place.slice(0, 3));
  const table = zstdCompressSync(JSON.stringify(blocks));
  const header = Buffer.from(frame.subarray(0, 48));
  header.write('mfe1', 0, 'latin1');
  header.writeDoubleBE(at + table.length + valued, 8);
  header.writeUInt32BE(table.length, 36);
  header.writeUInt32BE(crc32(header.subarray(8)), 4);
  return Buffer.concat([header, frame.subarray(48, at), table, frame.subarray(end)]);
}

test('what an earlier release explained is explained for as long as its events are there', async () => {
  await expectAllFound();
  const files = new EvidenceFiles(directory);
  await files.prune(START + DAY);
  await expectAllFound();
  await files.prune(START + 2 * DAY);
  expect(await readdir(directory)).toEqual([]);
  for (const { events } of CLOSED) {
    for (const event of events) expect(await files.find(event)).toBe(undefined);
  }
});

test('files of the release before that are read too', async () => {
  const path = join(directory, NAME);
  const bytes = await readFile(path);
  const first = bytes.readDoubleBE(8);
  const frames = [bytes.subarray(0, first), bytes.subarray(first)];
  await writeFile(path, Buffer.concat(frames.map(asMarkedMfe1)));
  await expectAllFound();
});

test('a damaged file, a file of something else and a missing directory explain nothing, and break nothing', async () => {
  const [event] = CLOSED[0]?.events ?? [];
  if (event === undefined) throw new Error('no event');
  await writeFile(join(directory, NAME), 'damaged');
  await writeFile(join(directory, 'README'), 'of somebody else');
  expect(await new EvidenceFiles(directory).find(event)).toBe(undefined);
  const nowhere = new EvidenceFiles(join(directory, 'none'));
  await nowhere.prune(START + DAY);
  expect(await nowhere.find(event)).toBe(undefined);
});
