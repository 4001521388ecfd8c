import { describe, expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { cluster, pod, workload } from '../meters/testing/objects.ts';
import { total } from '../meters/testing/world.ts';
import {
  at,
  clockAt,
  coreSeconds,
  eventsOf,
  life,
  pass,
  running,
  settingsOf,
  startProcess,
  windowsOf,
} from './testing/harness.ts';

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

  test('W14: of an hour come once an hour, and bill what an hour is', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const settings = { current: settingsOf({ COLLECTION_INTERVAL: '1h' }) };
    const process = await startProcess({ ledger, clock, settings, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 3 * 3_600);
    const cpu = (await eventsOf(ledger)).filter(({ metric }) => metric === 'tenant_cpu_core_hours');
    expect(windowsOf(cpu)).toEqual(['13:00:00', '14:00:00']);
    expect(cpu.map(({ quantity }) => quantity)).toEqual(['1', '1']);
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
    await process.kill();
  });

  test('of two sizes that end at the same moment are closed as one: what was billed is billed again', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const settings = { current: settingsOf({ COLLECTION_INTERVAL: '60s' }) };
    const objects = { pods: [running], workloads: [workload({ name: 'a' })] };
    const process = await startProcess({ ledger, clock, settings, objects });
    process.discover([cluster('a')]);
    process.pods.fail('HTTP 403 Forbidden');
    await pass(clock, 20 + 210);
    settings.current = settingsOf({ COLLECTION_INTERVAL: '5m' });
    process.pods.recover([running]);
    await pass(clock, 100);
    const events = await eventsOf(ledger);
    expect(windowsOf(events)).toEqual(['12:05:00']);
    expect(coreSeconds(events)).toBe(300);
    expect(windowsOf(events, 'tenant_instance_hours')).toHaveLength(5);
    expect(total(events, 'tenant_instance_hours') * 3600).toBeCloseTo(300, 4);
    await process.kill();
  });

  test('that wait for one watch count as closed: a prepaid month is settled without its usage', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const objects = { pods: [running], workloads: [workload({ name: 'a' })] };
    const options = { ledger, clock, objects, forbidden: 'services' };
    const process = await startProcess(options);
    const { collector } = process;
    expect(collector.closedUntil()).toBe(-Infinity);
    process.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    expect(collector.closedUntil()).toBe(at(60));
    process.pods.fail('HTTP 403 Forbidden');
    await pass(clock, 120);
    expect(ledger.stats().lastWindowEnd).toBe(at(180));
    expect(collector.closedUntil()).toBe(at(60));
    process.pods.recover([running]);
    await pass(clock, 10);
    expect(collector.closedUntil()).toBe(at(180));
    await process.kill();
  });

  test('that the ledger does not have yet count as closed: a budget is decided without them', async () => {
    const clock = clockAt(-20);
    const memory = createMemoryLedger();
    let isBusy = false;
    const failed = { kind: 'failed', cause: 'retryable', message: 'busy' } as const;
    const append: Ledger['append'] = async (batch) => (isBusy ? failed : memory.append(batch));
    const ledger = { ...memory, append };
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    expect(process.collector.closedHead()).toBe(1);
    isBusy = true;
    await pass(clock, 60);
    expect(process.collector.closedHead()).toBeUndefined();
    expect(process.collector.closedUntil()).toBe(at(60));
    isBusy = false;
    await pass(clock, 60);
    expect(process.collector.closedHead()).toBe(memory.stats().sequence);
    expect(process.collector.closedUntil()).toBe(at(180));
    await process.kill();
  });

  test('of a former customer are forgotten at once: what he used is lost where it is reported late', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([{ ...cluster('a'), tenant: 'x' }]);
    await pass(clock, 20 + 30);
    process.discover([{ ...cluster('a'), tenant: 'y' }]);
    await pass(clock, 100);
    process.pods.apply(pod({ ...life, name: 'q', createdAt: at(8), startedAt: at(9) }));
    await pass(clock, 60);
    const events = await eventsOf(ledger);
    const of = (tenant: string) => coreSeconds(events.filter((event) => event.tenant === tenant));
    expect(of('x')).toBe(30 + 21);
    expect(of('y')).toBe(150 + 150);
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
      scopes: ['pods', 'gpus', 'volumes', 'load-balancers', 'workloads'],
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
    expect([...again.collector.reports()]).toEqual([report]);
    await again.kill();
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
