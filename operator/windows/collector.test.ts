import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openLevelLedger } from '../ledger/leveldb/open-level-ledger.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { createMemoryLedger } from '../ledger/memory-ledger.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { cluster, node, pod, workload } from '../metering/testing/objects.ts';
import { START, total } from '../metering/testing/world.ts';
import type { UsageEvent } from '../usage/event.ts';
import { clockAt, eventsOf, pass, settingsOf, startProcess } from './testing/harness.ts';

const quiet = (): void => undefined;
const at = (second: number): number => START + second * 1000;
const CPU = 'tenant_cpu_core_hours';
const cpu = (events: readonly UsageEvent[]): number => total(events, CPU);
/** One core for a second, in core-hours, as it adds up over rounded events. */
const coreSeconds = (events: readonly UsageEvent[]): number =>
  Math.round(cpu(events) * 3600 * 1e4) / 1e4;
const windowsOf = (events: readonly UsageEvent[], metric = CPU): string[] =>
  events.filter((event) => event.metric === metric).map((event) => event.window_end.slice(11, 19));

const life = { name: 'p', createdAt: at(-100), startedAt: at(-90), containers: [{ cpu: '1' }] };
const running = pod(life);

describe('windows', () => {
  test('begin with the first full one after the first start, and are closed once each after settling', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 62);
    expect(await eventsOf(ledger)).toEqual([]);
    await pass(clock, 2);
    expect(windowsOf(await eventsOf(ledger))).toEqual(['12:01:00']);
    await pass(clock, 120);
    expect(windowsOf(await eventsOf(ledger))).toEqual(['12:01:00', '12:02:00', '12:03:00']);
    expect(coreSeconds(await eventsOf(ledger))).toBe(180);
    expect(process.collector.lastWindow).toEqual({ start: at(120), end: at(180) });
    expect(ledger.stats().lastWindowEnd).toBe(at(180));
    await process.kill();
  });

  test('bill a pod that lives for seven seconds between two ticks seven seconds', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({ ledger, clock });
    process.discover([cluster('a')]);
    await pass(clock, 30);
    const short = { ...life, createdAt: at(8), startedAt: at(9) };
    process.pods.apply(pod(short));
    await pass(clock, 10);
    const ended = pod({ ...short, phase: 'Succeeded', finishedAt: at(16) });
    process.pods.apply(ended);
    process.pods.remove(ended);
    await pass(clock, 60);
    expect(coreSeconds(await eventsOf(ledger))).toBe(7);
    await process.kill();
  });

  test('carry a finish that arrives after its window was closed into the next', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({
      ledger,
      clock,
      objects: { pods: [running, pod({ ...life, name: 'q' })] },
    });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    process.pods.apply(pod({ ...life, phase: 'Succeeded', finishedAt: at(40) }));
    await pass(clock, 60);
    const events = await eventsOf(ledger);
    expect(coreSeconds(events)).toBe(40 + 120);
    expect(events.at(-1)?.properties).toEqual({ basis: 'requests', carried_seconds: -20 });
    await process.kill();
  });

  test('of another size begin at the first boundary that both sizes have', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const settings = { current: settingsOf({ COLLECTION_INTERVAL: '60s' }) };
    const process = await startProcess({ ledger, clock, settings, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    settings.current = settingsOf({ COLLECTION_INTERVAL: '5m' });
    await pass(clock, 540);
    expect(windowsOf(await eventsOf(ledger))).toEqual([
      '12:01:00',
      '12:02:00',
      '12:03:00',
      '12:04:00',
      '12:05:00',
      '12:10:00',
    ]);
    expect(coreSeconds(await eventsOf(ledger))).toBe(600);
    expect(process.collector.windowMs).toBe(300_000);
    await process.kill();
  });

  test('are not closed before anybody knows the tenant clusters', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    await pass(clock, 20 + 150);
    expect(ledger.stats().lastWindowEnd).toBeUndefined();
    process.discover([cluster('a')]);
    await pass(clock, 2);
    expect(coreSeconds(await eventsOf(ledger))).toBe(120);
    await process.kill();
  });

  test('report what they came to, in memory and in the ledger', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 65);
    const [report] = process.collector.reports();
    expect(report).toMatchObject({
      windowStart: '2026-03-01T12:00:00Z',
      windowEnd: '2026-03-01T12:01:00Z',
      scopes: ['pods', 'volumes', 'load-balancers', 'workloads'],
      events: 1,
      conflicts: 0,
      tenants: 1,
      tenantClusters: 1,
      backfilled: false,
      gaps: [],
      refused: [],
    });
    await process.kill();
    const again = await startProcess({ ledger, clock, objects: { pods: [running] } });
    expect(again.collector.reports()).toEqual([report]);
    await again.kill();
  });
});

describe('after a stop', () => {
  /** Runs for 70 s, is killed, and starts again after `down` seconds, finding `objects`. */
  async function restart(
    down: number,
    objects: { pods: ReturnType<typeof pod>[] },
    environment = {},
  ) {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const settings = { current: settingsOf(environment) };
    const before = await startProcess({ ledger, clock, settings, objects: { pods: [running] } });
    before.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    await before.kill();
    await clock.advance(down * 1000);
    const process = await startProcess({ ledger, clock, settings, objects });
    process.discover([cluster('a')]);
    return { clock, ledger, process };
  }

  test('W05: windows that were missed are backfilled, and an unchanged pod is billed through', async () => {
    const { clock, ledger, process } = await restart(600, { pods: [running] });
    await pass(clock, 60);
    const events = await eventsOf(ledger);
    expect(coreSeconds(events)).toBe(720);
    const flagged = events.filter((event) => event.properties?.['backfilled'] === true);
    expect(flagged).toHaveLength(10);
    await process.kill();
  });

  test('W06: what is older than MAX_BACKFILL is a gap, and is said to be one', async () => {
    const { clock, ledger, process } = await restart(7 * 3600, { pods: [running] });
    await pass(clock, 5);
    const events = await eventsOf(ledger);
    // One minute before the stop, six hours after the gap.
    expect(events).toHaveLength(1 + 360);
    const [gap] = process.collector.gaps().filter(({ scope }) => scope === 'pods');
    expect(gap).toMatchObject({
      source: 'collector',
      from: at(60),
      reason: 'older than MAX_BACKFILL',
    });
    expect(process.logs).toContain('[controller] not metered, older than MAX_BACKFILL: pods');
    await process.kill();
  });

  test('W07, W13: a pod that vanished unseen is billed to when it was last known, and one that came and went is not', async () => {
    const { clock, ledger, process } = await restart(600, { pods: [] });
    await pass(clock, 60);
    // Killed at 70 s; the journal of 12:01 was written at 63 s.
    expect(coreSeconds(await eventsOf(ledger))).toBeGreaterThanOrEqual(60);
    expect(coreSeconds(await eventsOf(ledger))).toBeLessThanOrEqual(64);
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
      await pass(clock, 31 + run * 7);
      await process.kill();
      await ledger.close();
    }
    const ledger = await open();
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    const due = Math.floor((clock.now() - 4000) / 60_000) * 60_000;
    while ((process.collector.lastWindow?.end ?? 0) < due) await pass(clock, 1);
    await process.kill();
    const windows = windowsOf(await eventsOf(ledger));
    expect(new Set(windows).size).toBe(windows.length);
    expect(coreSeconds(await eventsOf(ledger))).toBe((due - START) / 1000);
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
});

describe('a failed watch', () => {
  test('W08: holds back its own metrics and no other, and fills them when it is back', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({
      ledger,
      clock,
      objects: { pods: [running], workloads: [workload({ name: 'a' })] },
    });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 30);
    process.pods.fail('HTTP 403 Forbidden');
    await pass(clock, 180);
    const during = await eventsOf(ledger);
    expect(cpu(during)).toBe(0);
    expect(windowsOf(during, 'tenant_instance_hours')).toEqual([
      '12:01:00',
      '12:02:00',
      '12:03:00',
    ]);
    expect(process.collector.gaps()).toEqual([
      { source: 'pods', scope: 'pods', from: at(0), to: at(180), reason: 'HTTP 403 Forbidden' },
    ]);
    process.pods.recover([running]);
    await pass(clock, 34);
    const after = await eventsOf(ledger);
    expect(windowsOf(after)).toEqual(['12:01:00', '12:02:00', '12:03:00', '12:04:00']);
    expect(coreSeconds(after)).toBe(240);
    expect(process.collector.gaps()).toEqual([]);
    const ids = after.map((event) => event.id);
    expect(new Set(ids).size).toBe(ids.length);
    await process.kill();
  });

  test('that failed after the window had settled does not hold the window back', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 64);
    process.pods.fail('gone');
    await pass(clock, 60);
    expect(windowsOf(await eventsOf(ledger))).toEqual(['12:01:00']);
    await process.kill();
  });
});

describe('the clock', () => {
  test('set back by ten minutes bills no window twice', async () => {
    const clock = clockAt(-20);
    let offset = 0;
    const steppable = { ...clock, now: () => clock.now() + offset };
    const ledger = createMemoryLedger();
    const process = await startProcess({ ledger, clock: steppable, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 130);
    offset = -600_000;
    await pass(clock, 300);
    expect(windowsOf(await eventsOf(ledger))).toEqual(['12:01:00', '12:02:00']);
    await pass(clock, 420);
    const windows = windowsOf(await eventsOf(ledger));
    expect(windows).toEqual(['12:01:00', '12:02:00', '12:03:00', '12:04:00']);
    expect((await process.metrics.clockSteps.get()).values[0]?.value).toBe(1);
    await process.kill();
  });

  test('set forward for a moment by mistake closes nothing in the future', async () => {
    const clock = clockAt(-20);
    let offset = 0;
    const steppable = { ...clock, now: () => clock.now() + offset };
    const ledger = createMemoryLedger();
    const process = await startProcess({ ledger, clock: steppable, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    offset = 3_600_000;
    await pass(clock, 5);
    offset = 0;
    await pass(clock, 70);
    expect(windowsOf(await eventsOf(ledger))).toEqual(['12:01:00', '12:02:00']);
    await process.kill();
  });
});

describe('usage', () => {
  const reading = (name: string, cores: number) =>
    ({ kind: 'usage', namespace: 'tenant-a', name, cpu: cores * 1e9, memory: 2 ** 30 }) as const;
  const byUsage = cluster('a', { cpuMemoryBasis: 'usage' });

  test('is integrated from samples twice a window', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([byUsage]);
    process.metricsApi = [reading('p', 1)];
    await pass(clock, 20 + 25);
    process.metricsApi = [reading('p', 3)];
    await pass(clock, 40);
    expect(coreSeconds(await eventsOf(ledger))).toBe(30 + 90);
    await process.kill();
  });

  test('C03: an outage of the metrics API is a warning and a gap, and stops nothing else', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({
      ledger,
      clock,
      objects: { pods: [running], workloads: [workload({ name: 'a' })], nodes: [node('n7')] },
    });
    process.metricsApi = new Error('HTTP 503');
    process.discover([byUsage]);
    await pass(clock, 20 + 65 + 60);
    const events = await eventsOf(ledger);
    expect(cpu(events)).toBe(0);
    expect(total(events, 'tenant_instance_hours')).toBeGreaterThan(0);
    const warning = '[metrics] warning: cannot get pod metrics for tenant-a';
    expect(process.logs.filter((line) => line === warning)).toHaveLength(1);
    expect(process.collector.gaps()).toEqual([
      { source: 'metrics', scope: '*', from: at(0), to: at(120), reason: 'HTTP 503' },
    ]);
    expect((await process.metrics.gapSeconds.get()).values[0]?.value).toBe(120);
    await process.kill();
  });

  test('of a pod that nobody samples is a gap of its tenant cluster, once it is old enough', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({
      ledger,
      clock,
      objects: { pods: [running, pod({ ...life, name: 'q' })] },
    });
    process.metricsApi = [reading('p', 1)];
    process.discover([byUsage]);
    await pass(clock, 20 + 65);
    expect(coreSeconds(await eventsOf(ledger))).toBe(60);
    expect(process.collector.gaps().map(({ scope }) => scope)).toEqual(['tenant-tenant-a-a']);
    await process.kill();
  });

  test('values that are none are skipped with a warning, and the rest is billed', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.metricsApi = [
      { kind: 'malformed', problem: 'not a quantity: usage of pod tenant-a/x: {"cpu":"1x"}' },
      reading('nobody', 5),
      reading('p', 1),
    ];
    process.discover([byUsage]);
    await pass(clock, 20 + 65);
    expect(coreSeconds(await eventsOf(ledger))).toBe(60);
    expect(process.logs).toContain('[metrics] skipped 2 readings of pod metrics');
    await process.kill();
  });
});

describe('the ledger', () => {
  const flaky = (
    ledger: Ledger,
    failures: number,
    cause: 'retryable' | 'full' | 'fenced',
  ): Ledger => {
    let left = failures;
    return {
      ...ledger,
      append: async (batch) => {
        left -= 1;
        if (left >= 0) return { kind: 'failed', cause, message: `append: ${cause}` };
        return ledger.append(batch);
      },
    };
  };

  test.each(['retryable', 'full'] as const)(
    'that cannot take a window (%s) is asked until it does, and nothing is lost',
    async (cause) => {
      const clock = clockAt(-20);
      const ledger = flaky(createMemoryLedger(), 9, cause);
      const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
      process.discover([cluster('a')]);
      await pass(clock, 20 + 64);
      expect(await eventsOf(ledger)).toEqual([]);
      await pass(clock, 300);
      expect(coreSeconds(await eventsOf(ledger))).toBe(360);
      await process.kill();
    },
  );

  test('that belongs to another writer ends the collector', async () => {
    const clock = clockAt(-20);
    const ledger = flaky(createMemoryLedger(), 1, 'fenced');
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 64);
    expect(await process.ended).toEqual({ kind: 'ledger', reason: 'append: fenced' });
  });

  test('whose volume is full makes windows wait, and gets them all when there is room', async () => {
    const clock = clockAt(-20);
    const memory = createMemoryLedger();
    let full = true;
    const ledger: Ledger = {
      ...memory,
      stats: () => ({
        ...memory.stats(),
        disk: {
          level: full ? 'collector-paused' : 'normal',
          usedRatio: 1,
          retentionShortened: false,
        },
      }),
    };
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 150);
    expect(await eventsOf(ledger)).toEqual([]);
    full = false;
    await pass(clock, 5);
    expect(coreSeconds(await eventsOf(ledger))).toBe(120);
    await process.kill();
  });
});
