import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { encodeStoredEvents, FIRST_CHAIN, nextChain } from '../event-chain.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { encodeEvents } from '../writer.ts';
import type { CopyOptions, CopyOrigin } from './begin-copy.ts';
import { type CopiedBatch, openStreamCopy, type StreamCopy } from './stream-copy.ts';

const used = usePostgres();
const HOUR_MS = 3_600_000;
let options: CopyOptions;
let origin: CopyOrigin;
const copies: StreamCopy[] = [];

beforeEach(async () => {
  const database = await used.server().createDatabase();
  options = { database, durability: 'storage', source: 'a', region: 'a', anew: false };
  const ledgerId = randomUUID();
  origin = { ledgerId, createdAt: TEST_WINDOW_START, lowWater: 0, firstChain: FIRST_CHAIN };
});
afterEach(async () => {
  for (const copy of copies.splice(0)) await copy.close();
});

async function openCopy(): Promise<StreamCopy> {
  const opened = await openStreamCopy(options, origin);
  if (opened.kind === 'finished') throw new Error('finished');
  copies.push(opened.copy);
  return opened.copy;
}

/** The batch of a window behind what a copy has, as a ledger would have stored it. */
function batchBehind(copy: StreamCopy, window: number): CopiedBatch {
  const { head, chain } = copy.contents().state;
  const start = TEST_WINDOW_START + window * TEST_WINDOW_MS;
  const events = encodeEvents(testWindow(start, 3));
  const { bytes } = encodeStoredEvents(
    head + 1,
    events.map(({ text }) => text),
  );
  return {
    events,
    appendedAt: start,
    lastSequence: head + events.length,
    chain: nextChain(chain).update(bytes).digest('hex'),
  };
}

describe('a copy', () => {
  test('is continued by the newest process alone', async () => {
    const first = await openCopy();
    await first.append(batchBehind(first, 0));
    const second = await openCopy();
    expect(second.contents().state.head).toBe(3);
    await expect(first.append(batchBehind(first, 1))).rejects.toThrow('taken the stream over');
    await expect(first.clearEntries()).rejects.toThrow('another process');
    await expect(first.finish(0)).rejects.toThrow('another process');
    await second.append(batchBehind(second, 1));
    await second.finish(0);
    expect(await openStreamCopy(options, origin)).toEqual({ kind: 'finished' });
    const ledger = await openTestStream(options.database, { source: 'a', region: 'a' });
    expect(ledger.stats()).toMatchObject({ ledgerId: origin.ledgerId, sequence: 6 });
    expect((await ledger.verify()).errors).toEqual([]);
    await ledger.close();
  });

  test('tells an event that it has already, and a chain that differs', async () => {
    const copy = await openCopy();
    await copy.append(batchBehind(copy, 0));
    await expect(copy.append(batchBehind(copy, 0))).rejects.toThrow(
      'the chain of the copy differs',
    );
    await expect(copy.append({ ...batchBehind(copy, 1), chain: FIRST_CHAIN })).rejects.toThrow(
      'the chain of the copy differs',
    );
  });

  test('puts each batch on the day on which it was appended, and those behind a hole on a later one', async () => {
    const copy = await openCopy();
    await copy.append(batchBehind(copy, 0));
    await copy.append({ ...batchBehind(copy, 1), appendedAt: TEST_WINDOW_START + 24 * HOUR_MS });
    // A clock that went back.
    await copy.append(batchBehind(copy, 2));
    await copy.skip(20, FIRST_CHAIN);
    await copy.append(batchBehind(copy, 3));
    expect(
      copy
        .contents()
        .segments.map(({ day, firstSequence, lastSequence }) => [day, firstSequence, lastSequence]),
    ).toEqual([
      ['2026-11-21', 1, 3],
      ['2026-11-22', 4, 9],
      ['2026-11-23', 21, 23],
    ]);
  });
});
