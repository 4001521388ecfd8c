import { expect, test } from 'vitest';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { cluster } from '../meters/testing/objects.ts';
import {
  clockAt,
  eventsOf,
  pass,
  running,
  settingsOf,
  startProcess,
  windowsOf,
} from './testing/harness.ts';

/** Events of a process that starts at 11:59:40 with one pod, so many seconds later. */
async function eventsAfter(seconds: number, environment: Readonly<Record<string, string>>) {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const settings = { current: settingsOf(environment) };
  const process = await startProcess({ ledger, clock, settings, objects: { pods: [running] } });
  process.discover([cluster('a')]);
  await pass(clock, seconds);
  await process.kill();
  return eventsOf(ledger);
}

test('REGION: is on every event, and makes other ids', async () => {
  const usual = await eventsAfter(110, {});
  const changed = await eventsAfter(110, { REGION: 'eu-west-9' });
  expect(usual.length).toBeGreaterThan(0);
  expect(new Set(usual.map(({ region }) => region))).toStrictEqual(new Set(['default']));
  expect(new Set(changed.map(({ region }) => region))).toStrictEqual(new Set(['eu-west-9']));
  const ids = new Set(usual.map(({ id }) => id));
  expect(changed.filter(({ id }) => ids.has(id))).toStrictEqual([]);
});

test('COLLECTION_INTERVAL: windows are so long, and aligned to it', async () => {
  expect(windowsOf(await eventsAfter(145, {}))).toStrictEqual(['12:01:00', '12:02:00']);
  const changed = await eventsAfter(145, { COLLECTION_INTERVAL: '30s' });
  expect(windowsOf(changed)).toStrictEqual(['12:00:30', '12:01:00', '12:01:30', '12:02:00']);
});

test('settlingDelay: a window is closed that long after its end', async () => {
  expect(windowsOf(await eventsAfter(85, {}))).toStrictEqual(['12:01:00']);
  expect(await eventsAfter(85, { 'spec.settlingDelay': '20s' })).toStrictEqual([]);
  expect(windowsOf(await eventsAfter(102, { 'spec.settlingDelay': '20s' }))).toStrictEqual([
    '12:01:00',
  ]);
});

test('MAX_BACKFILL: windows missed for longer are not made up for', async () => {
  const backfilled = async (environment: Readonly<Record<string, string>>): Promise<number> => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const settings = { current: settingsOf(environment) };
    const start = () => startProcess({ ledger, clock, settings, objects: { pods: [running] } });
    const before = await start();
    before.discover([cluster('a')]);
    await pass(clock, 85);
    await before.kill();
    const count = (await eventsOf(ledger)).length;
    await clock.advance(1800_000);
    const after = await start();
    after.discover([cluster('a')]);
    await pass(clock, 5);
    await after.kill();
    return new Set(windowsOf((await eventsOf(ledger)).slice(count))).size;
  };
  expect(await backfilled({})).toBe(30);
  expect(await backfilled({ MAX_BACKFILL: '10m' })).toBe(10);
});
