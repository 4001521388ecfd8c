import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { openLevelLedger } from '../../ledger/leveldb/open-level-ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { cluster, pod } from '../meters/testing/objects.ts';
import { START } from '../meters/testing/world.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { STATE_KEY, TENANT_CLUSTERS_KEY } from './journal.ts';
import {
  at,
  clockAt,
  coreSeconds,
  eventsOf,
  life,
  pass,
  quiet,
  running,
  settled,
  settingsOf,
  startProcess,
  windowsOf,
} from './testing/harness.ts';

describe('after a stop', () => {
  /** Runs for 70 s, is killed, and starts again after `down` seconds with `objects`. */
  async function restart(
    down: number,
    objects: { pods: ReturnType<typeof pod>[] },
    environment = {},
    clusters = [cluster('a')],
    forbidden?: string,
  ) {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const settings = { current: settingsOf(environment) };
    const before = await startProcess({ ledger, clock, settings, objects: { pods: [running] } });
    before.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    await before.kill();
    await clock.advance(down * 1000);
    const process = await startProcess({ ledger, clock, settings, objects, forbidden });
    process.discover(clusters);
    return { clock, ledger, process };
  }

  test('W05, W07: windows that were missed are backfilled: an unchanged pod is billed through, and nothing else is', async () => {
    const { clock, ledger, process } = await restart(600, { pods: [running] });
    await pass(clock, 60);
    const events = await eventsOf(ledger);
    expect(coreSeconds(events)).toBe(720);
    const flagged = events.filter((event) => event.properties?.['backfilled'] === true);
    expect(flagged).toHaveLength(10);
    expect(new Set(events.map(({ quantity }) => quantity))).toEqual(new Set(['0.016666667']));
    await process.kill();
  });

  test('no window is closed by what was known of tenant clusters before, unless discovery fails', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const objects = { pods: [running] };
    const before = await startProcess({ ledger, clock, objects });
    before.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    await before.kill();
    await clock.advance(600_000);
    const process = await startProcess({ ledger, clock, objects });
    await pass(clock, 8);
    expect(coreSeconds(await eventsOf(ledger))).toBe(60);
    expect(process.collector.gaps()).toEqual([]);
    await pass(clock, 4);
    expect(coreSeconds(await eventsOf(ledger))).toBe(660);
    await process.kill();
  });

  test('a kind of object whose list has not arrived has missed no window', async () => {
    const { clock, process } = await restart(600, { pods: [running] }, {}, [cluster('a')], 'pods');
    await pass(clock, 20);
    expect(process.collector.closedUntil()).toBe(at(660));
    expect(process.collector.unclosedEnd()).toBe(at(120));
    await process.kill();
  });

  test('W06: what is older than MAX_BACKFILL is a gap, and is reported as one', async () => {
    const { clock, ledger, process } = await restart(7 * 3600, { pods: [running] });
    await pass(clock, 5);
    const events = await eventsOf(ledger);
    // One minute before the stop, six hours after the gap.
    expect(events).toHaveLength(1 + 360);
    const gaps = process.collector.gaps().filter(({ scope }) => scope === 'pods');
    expect(gaps.find(({ source }) => source === 'collector')).toMatchObject({
      source: 'collector',
      from: at(60),
      reason: 'older than MAX_BACKFILL',
    });
    expect(process.logs).toContain('[controller] not metered, older than MAX_BACKFILL: pods');
    await process.kill();
  });

  test('a tenant cluster that began in a stretch that was given up is billed for it, gap or not', async () => {
    const created = { createdAt: at(600), startedAt: at(600) };
    const labels = { 'vcluster.loft.sh/managed-by': 'b' };
    const pods = [pod({ ...life, ...created, namespace: 'tenant-b', labels })];
    const found = [cluster('b', {}, { namespace: 'tenant-b', createdAt: at(600) })];
    const { clock, ledger, process } = await restart(7 * 3600, { pods }, {}, found);
    await pass(clock, 5);
    const own = (await eventsOf(ledger)).filter(({ tenant }) => tenant === found[0]?.tenant);
    expect(coreSeconds(own)).toBeCloseTo(360 * 60, 2);
    await process.kill();
  });

  test('W13: a pod that vanished unseen is billed to when it was last known to be there', async () => {
    const { clock, ledger, process } = await restart(600, { pods: [] });
    await pass(clock, 60);
    // Killed at 70 s; the journal was last written when 12:01 was closed, at 63 s.
    expect(coreSeconds(await eventsOf(ledger))).toBe(63);
    await process.kill();
  });

  test('a pod that was written ahead of the first window and vanished in a crash stays for ever', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const before = await startProcess({ ledger, clock, objects: { pods: [running] } });
    await pass(clock, 5);
    await before.kill();
    expect(await journalOfPods(ledger)).toHaveLength(1);
    const process = await startProcess({ ledger, clock, objects: { pods: [] } });
    process.discover([cluster('a')]);
    await pass(clock, 15 + 70);
    expect(await eventsOf(ledger)).toEqual([]);
    expect(await journalOfPods(ledger)).toEqual([]);
    await process.kill();
  });

  test('a stop that was announced forgets nothing of the time since the last window', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const before = await startProcess({ ledger, clock, objects: { pods: [running] } });
    before.discover([cluster('a')]);
    await pass(clock, 20 + 80);
    await before.stop();
    await clock.advance(600_000);
    const process = await startProcess({ ledger, clock });
    process.discover([cluster('a')]);
    await pass(clock, 60);
    expect(coreSeconds(await eventsOf(ledger))).toBe(80);
    await process.kill();
  });

  test('in the middle of an hour-long window loses half a minute of knowledge at most', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const settings = { current: settingsOf({ COLLECTION_INTERVAL: '1h' }) };
    const before = await startProcess({ ledger, clock, settings, objects: { pods: [running] } });
    before.discover([cluster('a')]);
    await pass(clock, 20 + 1800);
    await before.kill();
    await clock.advance(600_000);
    const process = await startProcess({ ledger, clock, settings });
    process.discover([cluster('a')]);
    await pass(clock, 1300);
    const billed = coreSeconds(await eventsOf(ledger));
    expect(billed).toBeGreaterThanOrEqual(1800 - 32);
    expect(billed).toBeLessThanOrEqual(1800);
    await process.kill();
  });

  test('what could not be saved between windows is saved with the next one', async () => {
    const clock = clockAt(-20);
    const memory = createMemoryLedger();
    const failure = { kind: 'failed', cause: 'retryable', message: 'busy' } as const;
    const ledger: Ledger = { ...memory, writeRecords: async () => failure };
    const before = await startProcess({ ledger, clock, objects: { pods: [running] } });
    before.discover([cluster('a')]);
    await pass(clock, 20 + 64);
    await before.kill();
    await clock.advance(600_000);
    const process = await startProcess({ ledger: memory, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 60);
    expect(coreSeconds(await eventsOf(memory))).toBe(720);
    await process.kill();
  });

  test('a pod that began meanwhile is billed from its own start', async () => {
    const late = pod({ ...life, name: 'late', createdAt: at(300), startedAt: at(301) });
    const { clock, ledger, process } = await restart(600, { pods: [running, late] });
    await pass(clock, 60);
    expect(coreSeconds(await eventsOf(ledger))).toBe(720 + (720 - 301));
    await process.kill();
  });

  test('a pod that ended meanwhile is billed to its own end', async () => {
    const ended = pod({ ...life, phase: 'Succeeded', finishedAt: at(300) });
    const { clock, ledger, process } = await restart(600, { pods: [ended] });
    await pass(clock, 60);
    expect(coreSeconds(await eventsOf(ledger))).toBe(300);
    await process.kill();
  });

  test('no window is measured twice, and none is missing, wherever the process is killed', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    for (let run = 0; run < 12; run += 1) {
      const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
      process.discover([cluster('a')]);
      await pass(clock, 17 + run * 3);
      await process.kill();
    }
    const windows = windowsOf(await eventsOf(ledger));
    expect(new Set(windows).size).toBe(windows.length);
    expect(coreSeconds(await eventsOf(ledger))).toBe(60 * windows.length);
    expect(windows.length).toBe(6);
  });

  test('the journal of a real ledger restores every window of a day of kills', async () => {
    const clock = clockAt(-20);
    const directory = await mkdtemp(join(tmpdir(), 'meterfeed-windows-'));
    const logger = { debug: quiet, info: quiet, warn: quiet, error: quiet };
    const open = async (): Promise<Ledger> => {
      const options = { directory, retentionMs: 86_400_000, clock: systemClock, logger };
      const opened = await openLevelLedger({ ...options, reserveBytes: 4096 });
      if (opened.kind === 'failed') throw new Error(opened.message);
      return opened.ledger;
    };
    for (let run = 0; run < 6; run += 1) {
      const ledger = await open();
      const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
      process.discover([cluster('a')]);
      // Waits only for the disk: the clock stands still until the very first start is stored.
      while ((await ledger.record(STATE_KEY)) === undefined) await settled();
      await pass(clock, 31 + run * 7);
      await process.kill();
      await ledger.close();
    }
    const ledger = await open();
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    const due = Math.floor((clock.now() - 4000) / 60_000) * 60_000;
    // A scope that has not listed yet is closed a moment after the others.
    const closedUntil = (): number => {
      const ofPods = [...process.collector.reports()].filter(({ scopes }) =>
        scopes.includes('pods'),
      );
      return Date.parse(ofPods[0]?.windowEnd ?? '1970-01-01T00:00:00Z');
    };
    while (closedUntil() < due) await pass(clock, 1);
    await process.kill();
    const windows = windowsOf(await eventsOf(ledger));
    expect(new Set(windows).size).toBe(windows.length);
    expect(coreSeconds(await eventsOf(ledger))).toBe((closedUntil() - START) / 1000);
    await ledger.close();
    await rm(directory, { recursive: true });
  });

  test('a lost journal bills no closed window again', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const before = await startProcess({ ledger, clock, objects: { pods: [running] } });
    before.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    await before.kill();
    for await (const [key] of ledger.records('journal/')) {
      await ledger.writeRecords([{ key, value: undefined }]);
    }
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 60);
    expect(windowsOf(await eventsOf(ledger))).toEqual(['12:01:00', '12:02:00']);
    expect(coreSeconds(await eventsOf(ledger))).toBe(120);
    await process.kill();
  });

  test('a journal that an earlier version wrote bills no closed window again, and none wrongly', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const before = await startProcess({ ledger, clock, objects: { pods: [running] } });
    before.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    await before.stop();
    for await (const [key, text] of ledger.records('journal/timeline/')) {
      const value = text.replace(/"v":\d+/, '"v":0');
      await ledger.writeRecords([{ key, value }]);
    }
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 120);
    expect(process.logs.join()).toContain('cannot read 1 records of pod: they are listed again');
    expect(windowsOf(await eventsOf(ledger))).toEqual(['12:01:00', '12:02:00', '12:03:00']);
    expect(coreSeconds(await eventsOf(ledger))).toBe(180);
    const events = await eventsOf(ledger);
    expect(events.flatMap(({ properties }) => Object.keys(properties ?? {}))).not.toContain(
      'carried_seconds',
    );
    await process.kill();
  });

  test('a journal whose tenant clusters cannot be read bills no closed window again, and is logged', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const before = await startProcess({ ledger, clock, objects: { pods: [running] } });
    before.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    await before.stop();
    await ledger.writeRecords([{ key: TENANT_CLUSTERS_KEY, value: '{"v":1,"clusters":"all"}' }]);
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 120);
    expect(process.logs.join()).toContain('journal: cannot read the tenant clusters');
    expect(windowsOf(await eventsOf(ledger))).toEqual(['12:01:00', '12:02:00', '12:03:00']);
    expect(coreSeconds(await eventsOf(ledger))).toBe(180);
    await process.kill();
  });
});

async function journalOfPods(ledger: Ledger): Promise<string[]> {
  const keys: string[] = [];
  for await (const [key] of ledger.records('journal/timeline/pod/')) keys.push(key);
  return keys;
}
