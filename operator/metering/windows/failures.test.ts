import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { gpuNode, N1 } from '../meters/testing/gpu-nodes.ts';
import {
  claim,
  cluster,
  node,
  SYNCED_LABELS,
  pod,
  service,
  workload,
} from '../meters/testing/objects.ts';
import { cpu, memory, total } from '../meters/testing/world.ts';
import { createPodMetricsReader } from './pod-metrics.ts';
import { UNSEEN } from './gaps.ts';
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

const GPU = 'nvidia.com/gpu';

describe('a failed watch', () => {
  test('W13: that is listed again bills a pod that vanished meanwhile until it was last seen', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const stays = pod({ ...life, name: 'q' });
    const process = await startProcess({ ledger, clock, objects: { pods: [running, stays] } });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    process.pods.fail('the watch cannot resume, its version is too old');
    await pass(clock, 20);
    process.pods.recover([stays]);
    await pass(clock, 60);
    expect(coreSeconds(await eventsOf(ledger))).toBe(70 + 120);
    expect(process.collector.gaps()).toEqual([]);
    await process.kill();
  });

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
    const gap = { source: 'pods', from: at(0), to: at(180), reason: 'HTTP 403 Forbidden' };
    expect(process.collector.gaps()).toEqual([
      { ...gap, scope: 'pods' },
      { ...gap, scope: 'gpus' },
    ]);
    process.pods.recover([running]);
    await pass(clock, 34);
    const after = await eventsOf(ledger);
    expect(windowsOf(after)).toEqual(['12:01:00', '12:02:00', '12:03:00', '12:04:00']);
    expect(coreSeconds(after)).toBe(240);
    const unseen = { source: 'pods', from: at(30), to: at(210), reason: UNSEEN };
    expect(process.collector.gaps()).toEqual([
      { ...unseen, scope: 'pods' },
      { ...unseen, scope: 'gpus' },
    ]);
    const ids = after.map((event) => event.id);
    expect(new Set(ids).size).toBe(ids.length);
    await process.kill();
  });

  test('that comes back only just: what kubelets could not write meanwhile is billed in its own window', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    process.discover([cluster('a')]);
    await pass(clock, 20 + 50);
    process.pods.fail('connection refused');
    await pass(clock, 20);
    process.pods.recover([running]);
    await pass(clock, 2);
    expect(windowsOf(await eventsOf(ledger))).toEqual([]);
    process.pods.apply(pod({ ...life, phase: 'Succeeded', finishedAt: at(55) }));
    await pass(clock, 2);
    const events = await eventsOf(ledger);
    expect(windowsOf(events)).toEqual(['12:01:00']);
    expect(coreSeconds(events)).toBe(55);
    expect(process.collector.gaps()).toEqual([]);
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
      objects: {
        pods: [running, pod({ ...life, name: 'g', node: 'n1', containers: [{ [GPU]: '2' }] })],
        workloads: [workload({ name: 'a' })],
        nodes: [node('n7'), gpuNode(N1)],
        volumes: [claim({ name: 'v' })],
        services: [service({ name: 's' })],
      },
    });
    process.metricsApi = new Error('HTTP 503');
    // The metrics API of this cluster has nothing about a tenant cluster elsewhere.
    const external = { ...byUsage, id: 'external-x', source: 'external' as const, namespace: '' };
    process.discover([byUsage, external]);
    await pass(clock, 20 + 65 + 60);
    const events = await eventsOf(ledger);
    expect([cpu(events), memory(events)]).toEqual([0, 0]);
    for (const [metric, perHour] of [
      ['tenant_instance_hours', 1],
      ['tenant_gpu_hours', 2],
      ['tenant_storage_gb_hours', 100],
      ['tenant_lb_hours', 1],
    ] as const) {
      expect(total(events, metric)).toBeCloseTo((perHour * 2) / 60, 8);
    }
    const warning = '[metrics] warning: cannot get pod metrics for tenant-a';
    expect(process.logs.filter((line) => line.startsWith('[metrics] warning'))).toEqual([warning]);
    expect(process.collector.gaps()).toEqual([
      { source: 'metrics', scope: '*', from: at(0), to: at(120), reason: 'HTTP 503' },
    ]);
    const { values } = await process.metrics.gapSeconds.get();
    expect(values.find(({ labels }) => labels.source === 'metrics')?.value).toBe(120);
    await process.kill();
  });

  test('with WATCH_NAMESPACES is read by namespace: one that is forbidden costs the others nothing', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const requested = new Set<string>();
    const refused = { kind: 'status', code: 403, reason: 'Forbidden', message: 'no' } as const;
    const usage = { containers: [{ name: 'c', usage: { cpu: '2', memory: '1Gi' } }] };
    const labels = { ...SYNCED_LABELS, 'vcluster.loft.sh/managed-by': 'b' };
    const ofB = pod({ ...life, name: 'q', namespace: 'tenant-b', labels });
    let forbidden = true;
    // A role in two namespaces: the metrics API refuses the list of all, and the list of one of
    // them.
    const podMetrics = createPodMetricsReader({
      bytes: async (path) => {
        requested.add(path);
        const [, namespace = ''] = /namespaces\/([^/]+)\/pods$/.exec(path) ?? [];
        if (namespace === '' || (forbidden && namespace === 'tenant-b')) return refused;
        const name = namespace === 'tenant-b' ? 'q' : 'p';
        const items = [{ metadata: { name, namespace }, ...usage }];
        const chunks = Readable.from([Buffer.from(JSON.stringify({ metadata: {}, items }))]);
        return { kind: 'ok', chunks };
      },
    });
    const process = await startProcess({
      ledger,
      clock,
      podMetrics,
      settings: { current: settingsOf({ WATCH_NAMESPACES: 'tenant-a,tenant-b,tenant-c' }) },
      objects: { pods: [running, ofB] },
    });
    process.discover([
      byUsage,
      cluster('b', { cpuMemoryBasis: 'usage' }, { namespace: 'tenant-b' }),
    ]);
    await pass(clock, 20 + 65);
    const of = async (tenant: string) =>
      coreSeconds((await eventsOf(ledger)).filter((event) => event.tenant === tenant));
    expect(await of('tenant-tenant-a-a')).toBe(120);
    expect(await of('tenant-tenant-b-b')).toBe(0);
    const reason = 'HTTP 403 Forbidden: no';
    expect(process.collector.gaps()).toEqual([
      { source: 'metrics', scope: 'tenant-tenant-b-b', from: at(0), to: at(60), reason },
    ]);
    expect(process.collector.metricsFailure).toEqual({
      reason: `pod metrics of namespace "tenant-b": ${reason}`,
      since: at(0),
    });
    expect(process.logs.filter((line) => line.startsWith('[metrics] warning'))).toEqual([
      '[metrics] warning: cannot get pod metrics for tenant-b',
    ]);
    forbidden = false;
    await pass(clock, 120);
    expect(await of('tenant-tenant-a-a')).toBe(360);
    // The next sample is half a minute into the window.
    expect(await of('tenant-tenant-b-b')).toBe(180);
    expect(process.collector.metricsFailure).toBeUndefined();
    expect(process.collector.gaps().map(({ from, to }) => [from, to])).toEqual([[at(0), at(90)]]);
    // Without tenant clusters that are billed by usage, nothing is read.
    expect([...requested]).toEqual([
      '/apis/metrics.k8s.io/v1beta1/namespaces/tenant-a/pods',
      '/apis/metrics.k8s.io/v1beta1/namespaces/tenant-b/pods',
    ]);
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
    'that cannot take a window (%s) gets it again until it does, and nothing is lost',
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
