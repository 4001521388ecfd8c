import { expect, test } from 'vitest';
import { FIRST_CHAIN } from '../event-chain.ts';
import { testEvent } from '../testing/events.ts';
import { encodeEvents } from '../writer.ts';
import { storedById } from './find-stored.ts';
import type { StreamView } from './decode-rows.ts';
import { SeriesCache } from './series-cache.ts';

async function terminated(): Promise<never> {
  throw new Error('Connection terminated unexpectedly');
}

test('a connection that ends while a repeat is looked up makes no stored event a damaged one', async () => {
  const state = {
    stream: 1,
    ledgerId: 'a-ledger',
    createdAt: 0,
    epoch: 1,
    owner: '',
    head: 1,
    batch: 1,
    chain: FIRST_CHAIN,
    seriesHead: 1,
    lowWater: 0,
    horizon: 0,
  };
  const view: StreamView = {
    contents: { state, segments: [], cursors: new Map() },
    series: new SeriesCache(),
    query: terminated,
    copyOut: terminated,
  };
  const row = { seq: '1', series: '1', id: '00000000-0000-0000-0000-000000000000' };
  await expect(storedById(view, [row], encodeEvents([testEvent()]))).rejects.toThrow(
    'Connection terminated',
  );
});
