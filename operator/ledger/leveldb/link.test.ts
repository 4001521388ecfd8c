import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createStepClock } from '../testing/step-clock.ts';
import { BatchTree, chainValue } from '../event-chain.ts';
import { encodeEvent } from '../../model/event.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../testing/events.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import { rebuildHead } from '../tool/rebuild-head.ts';
import { verifyDirectory } from '../tool/verify.ts';
import { readIdentity } from './identity.ts';

/** Five events in two segments, a cursor and a record, written by a release without trees. */
const FIXTURE = join(import.meta.dirname, '..', 'testing', 'format-1-ledger');
/** Its chain value at event 5, as that release logged it. */
const OLD_CHAIN = '7c6dfb47b5f998493845f9c7b22d853f7653139eed8b6f6471fc6be82d30ceef';

/** On the day on which it opened its newest segment: on the next day the segment ends by age. */
const FIXTURE_TIME = Date.parse('2026-11-28T22:00:00Z');

const used = useLedgers();

async function copied(): Promise<string> {
  const directory = await used.directory();
  await cp(FIXTURE, directory, { recursive: true });
  return directory;
}

const nextWindow = (count: number) => testWindow(TEST_WINDOW_START + 3 * TEST_WINDOW_MS, count);

test('a ledger of the older form goes on: its chain value is the first previous one of the new form', async () => {
  const directory = await copied();
  const events = nextWindow(3);
  const ledger = await used.open(directory, { segmentLimits: { events: 4, bytes: 1e9 } });
  expect(ledger.stats()).toMatchObject({ sequence: 5, chain: OLD_CHAIN, problems: [] });
  await ledger.append({ events });

  const tree = new BatchTree();
  for (const [index, event] of events.entries()) {
    tree.add(6 + index, event.tenant, encodeEvent(event));
  }
  const value = chainValue(OLD_CHAIN, 6, tree.root());
  expect(ledger.stats()).toMatchObject({ sequence: 8, chain: value, problems: [] });
  expect(await ledger.verify()).toMatchObject({ ok: true, records: 8, chain: value, errors: [] });
  expect(await ledger.record('journal/state')).toBe('kept');
  expect(ledger.cursors()).toMatchObject([{ destination: 'lago', sequence: 3 }]);
  await ledger.close();

  for (const anchor of [
    { sequence: 5, chain: OLD_CHAIN },
    { sequence: 8, chain: value },
  ]) {
    expect(await verifyDirectory(directory, anchor)).toMatchObject({ ok: true, errors: [] });
  }
});

test('segments behind the link and restarts keep both forms', async () => {
  const directory = await copied();
  const clock = createStepClock(FIXTURE_TIME);
  const options = { clock, segmentLimits: { events: 2, bytes: 1e9 } };
  for (let round = 3; round < 6; round++) {
    const ledger = await used.open(directory, options);
    await ledger.append({ events: testWindow(TEST_WINDOW_START + round * TEST_WINDOW_MS, 2) });
    expect(await ledger.verify()).toMatchObject({ ok: true, errors: [] });
    expect(ledger.stats().problems).toEqual([]);
    await ledger.close();
  }
  const report = await verifyDirectory(directory);
  expect(report).toMatchObject({ ok: true, records: 11, segments: 4, errors: [] });
});

test('records alone set the link too, and nothing of the older form is read by the new one', async () => {
  const directory = await copied();
  const ledger = await used.open(directory);
  await ledger.writeRecords([{ key: 'journal/state', value: 'newer' }]);
  expect(await ledger.verify()).toMatchObject({ ok: true, chain: OLD_CHAIN });
  await ledger.append({ events: nextWindow(1) });
  expect(await ledger.verify()).toMatchObject({ ok: true, records: 6 });
});

test('a release that knows no link refuses the ledger, instead of calling it damaged', async () => {
  const directory = await copied();
  expect(await readIdentity(directory)).toMatchObject({ format: 1 });
  const ledger = await used.open(directory);
  expect(await readIdentity(directory)).toMatchObject({
    format: 2,
    ledgerId: ledger.stats().ledgerId,
  });
});

test('the head of a ledger with a link can be rebuilt', async () => {
  const directory = await copied();
  const ledger = await used.open(directory);
  await ledger.append({ events: nextWindow(2) });
  const { chain } = ledger.stats();
  await ledger.close();
  await rm(join(directory, 'HEAD'));
  expect(await rebuildHead(directory, 1e12, { sequence: 7, chain })).toMatchObject({ chain });
});

test('a tenant whose name stands in a property or has a quote does not change the leaf it belongs to', async () => {
  const ledger = await used.open(await used.directory());
  const plain = testEvent({ tenant: 'a', sku: 'one' });
  const nested = { ...testEvent({ tenant: 'a' }), properties: { tenant: 'b' } };
  const quoted = testEvent({ tenant: 'a"b\\' });
  await ledger.append({ events: [nested, quoted, plain] });
  expect(await ledger.verify()).toMatchObject({ ok: true, errors: [] });
});
