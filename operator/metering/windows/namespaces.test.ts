import { describe, expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { ManualClock } from '../../kubernetes/testing/manual-clock.ts';
import { cluster, claim, node, pod, workload } from '../meters/testing/objects.ts';
import {
  at,
  clockAt,
  coreSeconds,
  eventsOf,
  type CollectorHarnessOptions,
  life,
  pass,
  startProcess,
  windowsOf,
} from './testing/harness.ts';
import { UNSEEN } from './gaps.ts';

const NAMESPACES = ['tenant-a', 'tenant-b'];
const A = cluster('a');
const B = cluster('b', {}, { namespace: 'tenant-b' });
const FORBIDDEN = 'HTTP 403 Forbidden';

const labels = (name: string) => ({ 'vcluster.loft.sh/managed-by': name });
const ofA = pod({ ...life, name: 'p', labels: labels('a') });
const ofB = pod({ ...life, name: 'q', namespace: 'tenant-b', labels: labels('b') });

async function start(
  clock: ManualClock,
  ledger: Ledger,
  more: Partial<CollectorHarnessOptions> = {},
) {
  const process = await startProcess({
    ledger,
    clock,
    watchNamespaces: NAMESPACES,
    objects: {
      pods: [ofA, ofB],
      workloads: [workload({ name: 'a' }), workload({ name: 'b', namespace: 'tenant-b' })],
      volumes: [claim({ name: 'v', labels: labels('a') })],
    },
    ...more,
  });
  process.discover([A, B]);
  return process;
}

async function of(ledger: Ledger, id: string) {
  const events = await eventsOf(ledger);
  return events.filter(({ dimensions }) => dimensions?.['tenant_cluster'] === id);
}

const minutes = (first: number, last: number): string[] =>
  Array.from(
    { length: last - first + 1 },
    (_, index) => `12:${String(first + index).padStart(2, '0')}:00`,
  );

const gapOf = (source: string) => ({ source, scope: A.id, reason: FORBIDDEN, from: at(0) });

describe('with WATCH_NAMESPACES, one namespace whose pods may not be watched any more', () => {
  test('holds its own tenants’ pods alone, and fills their windows when it may be watched again', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await start(clock, ledger);
    await pass(clock, 20 + 30);
    process.pods.failIn('tenant-a', FORBIDDEN);
    await pass(clock, 30 + 6);
    expect(windowsOf(await of(ledger, B.id))).toEqual(minutes(1, 1));
    await pass(clock, 120);
    const during = await of(ledger, A.id);
    expect(windowsOf(during)).toEqual([]);
    expect(windowsOf(during, 'tenant_instance_hours')).toEqual(minutes(1, 3));
    expect(windowsOf(during, 'tenant_storage_gb_hours')).toEqual(minutes(1, 3));
    expect(windowsOf(await of(ledger, B.id))).toEqual(minutes(1, 3));
    expect(coreSeconds(await of(ledger, B.id))).toBe(180);
    expect(process.collector.gaps()).toMatchObject([gapOf('pods'), gapOf('gpus')]);
    const lag = await process.metrics.lagSeconds.get();
    expect(lag.values[0]?.value).toBeLessThan(60);

    process.pods.recoverIn('tenant-a', [ofA]);
    await pass(clock, 64);
    expect(windowsOf(await of(ledger, A.id))).toEqual(minutes(1, 4));
    expect(coreSeconds(await of(ledger, A.id))).toBe(240);
    const unseen = { source: 'pods', scope: A.id, from: at(30), to: at(186), reason: UNSEEN };
    expect(process.collector.gaps()).toEqual([unseen]);
    await pass(clock, 60);
    const last = process.collector.reports().next().value;
    expect(last?.scopes).toEqual(['pods', 'gpus', 'volumes', 'load-balancers', 'workloads']);
    expect(coreSeconds(await of(ledger, A.id))).toBe(300);
    const ids = (await eventsOf(ledger)).map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    await process.kill();
  });

  test('bills a pod that vanished meanwhile until it was last seen, and a new one from its start', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await start(clock, ledger);
    await pass(clock, 20 + 90);
    process.pods.failIn('tenant-a', FORBIDDEN);
    await pass(clock, 110);
    const next = { ...life, name: 'r', createdAt: at(150), startedAt: at(155) };
    process.pods.recoverIn('tenant-a', [pod({ ...next, labels: labels('a') })]);
    await pass(clock, 44);
    expect(coreSeconds(await of(ledger, A.id))).toBe(90 + 85);
    expect(coreSeconds(await of(ledger, B.id))).toBe(240);
    await process.kill();
  });

  test('loses the samples that its waiting windows need, because the others are done with them', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await start(clock, ledger);
    const sampled = { kind: 'usage', namespace: 'tenant-a', name: 'p', cpu: 3e9 } as const;
    process.metricsApi = [{ ...sampled, memory: 1 }];
    process.discover([{ ...A, metering: { ...A.metering, cpuMemoryBasis: 'usage' } }, B]);
    await pass(clock, 20 + 30);
    process.pods.failIn('tenant-a', FORBIDDEN);
    await pass(clock, 160);
    expect(coreSeconds(await of(ledger, A.id))).toBe(0);
    expect(coreSeconds(await of(ledger, B.id))).toBe(180);
    process.pods.recoverIn('tenant-a', [ofA]);
    await pass(clock, 60);
    expect(coreSeconds(await of(ledger, A.id))).toBe(240 * 3);
    await process.kill();
  });

  test('loses what its next window owes for a closed one, because the others close theirs first', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await start(clock, ledger);
    await pass(clock, 20 + 90);
    process.pods.failIn('tenant-a', FORBIDDEN);
    await pass(clock, 151);
    const late = { ...life, name: 'r', createdAt: at(38), startedAt: at(40) };
    process.pods.recoverIn('tenant-a', [ofA, pod({ ...late, labels: labels('a') })]);
    await pass(clock, 30);
    expect(coreSeconds(await of(ledger, A.id))).toBe(240 + 200);
    await process.kill();
  });

  test('is billed by what its node became while its windows waited', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const spot = node('n7', { 'karpenter.sh/capacity-type': 'spot' });
    const objects = { pods: [ofA, ofB], nodes: [spot] };
    const process = await start(clock, ledger, { objects });
    await pass(clock, 20 + 30);
    process.pods.failIn('tenant-a', FORBIDDEN);
    await pass(clock, 70);
    process.nodes.apply(node('n7'));
    await pass(clock, 1_100);
    process.pods.recoverIn('tenant-a', [ofA]);
    await pass(clock, 10);
    const events = await of(ledger, A.id);
    const onSpot = events.filter(({ dimensions }) => dimensions?.['capacity_type'] === 'spot');
    expect(coreSeconds(onSpot)).toBe(100);
    expect(coreSeconds(events)).toBe(1_200);
    await process.kill();
  });

  test('from the very beginning holds nobody else’s first window', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const process = await start(clock, ledger, { forbiddenNamespace: 'tenant-a' });
    await pass(clock, 20 + 66);
    expect(windowsOf(await of(ledger, B.id))).toEqual(minutes(1, 1));
    await pass(clock, 120);
    expect(coreSeconds(await of(ledger, B.id))).toBe(180);
    expect(coreSeconds(await of(ledger, A.id))).toBe(0);
    process.pods.recoverIn('tenant-a', [ofA]);
    await pass(clock, 64);
    expect(coreSeconds(await of(ledger, A.id))).toBe(240);
    expect(coreSeconds(await of(ledger, B.id))).toBe(240);
    await process.kill();
  });

  test('stays open over a restart, and is filled once', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const before = await start(clock, ledger);
    await pass(clock, 20 + 90);
    before.pods.failIn('tenant-a', FORBIDDEN);
    await pass(clock, 100);
    await before.kill();
    const after = await start(clock, ledger, { forbiddenNamespace: 'tenant-a' });
    await pass(clock, 60);
    expect(windowsOf(await of(ledger, A.id))).toEqual(minutes(1, 1));
    expect(windowsOf(await of(ledger, B.id))).toEqual(minutes(1, 4));
    after.pods.recoverIn('tenant-a', [ofA]);
    await pass(clock, 64);
    expect(windowsOf(await of(ledger, A.id))).toEqual(minutes(1, 5));
    expect(coreSeconds(await of(ledger, A.id))).toBe(300);
    expect(coreSeconds(await of(ledger, B.id))).toBe(300);
    expect(after.collector.gaps()).toEqual([]);
    await after.kill();
  });
});

test('a namespace that is not watched any more ends what is known of it', async () => {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const before = await start(clock, ledger);
  await pass(clock, 20 + 90);
  await before.stop();
  const after = await start(clock, ledger, {
    watchNamespaces: ['tenant-b'],
    objects: { pods: [ofB] },
  });
  await pass(clock, 124);
  expect(coreSeconds(await of(ledger, A.id))).toBe(90);
  expect(coreSeconds(await of(ledger, B.id))).toBe(180);
  await after.kill();
});

test('namespaces that all fail wait together: the API server is down, and nobody is to blame', async () => {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const process = await start(clock, ledger);
  await pass(clock, 20 + 30);
  for (const namespace of NAMESPACES) process.pods.failIn(namespace, 'connection refused');
  await pass(clock, 120);
  expect(windowsOf(await eventsOf(ledger))).toEqual([]);
  expect(process.collector.gaps()).toMatchObject([
    { source: 'pods', scope: 'pods' },
    { source: 'pods', scope: 'gpus' },
  ]);
  process.pods.recoverIn('tenant-a', [ofA]);
  process.pods.recoverIn('tenant-b', [ofB]);
  await pass(clock, 64);
  expect(coreSeconds(await of(ledger, A.id))).toBe(180);
  expect(coreSeconds(await of(ledger, B.id))).toBe(180);
  await process.kill();
});

test('C34: a namespace that a syncer maps is billed by the usage in it too, and through a kill', async () => {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const syncedNamespaces = [{ name: 'team-1', createdAt: at(-3600) }];
  const mapping = cluster('a', { cpuMemoryBasis: 'usage' }, { syncedNamespaces });
  const imported = pod({ ...life, name: 'p', namespace: 'team-1', labels: {} });
  const begin = async () => {
    const process = await startProcess({ ledger, clock, objects: { pods: [imported] } });
    process.metricsApi = [
      { kind: 'usage', namespace: 'team-1', name: 'p', cpu: 2e9, memory: 2 ** 30 },
    ];
    return process;
  };
  const before = await begin();
  before.discover([mapping]);
  await pass(clock, 20 + 130);
  await before.kill();
  const after = await begin();
  // Until the next discovery pass, the journal's state counts.
  await pass(clock, 40);
  after.discover([mapping]);
  await pass(clock, 80);
  expect(windowsOf(await of(ledger, A.id))).toEqual(minutes(1, 4));
  // Samples of the window of the kill are lost.
  const unknown = { source: 'metrics', scope: A.id, from: at(120), to: at(150) };
  expect(after.collector.gaps()).toMatchObject([unknown]);
  expect(coreSeconds(await of(ledger, A.id))).toBe(2 * (4 * 60 - 30));
  await after.kill();
});

test('a tenant that is namespaces alone is billed by the usage in them', async () => {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const tenant = cluster(
    'acme',
    { cpuMemoryBasis: 'usage' },
    {
      source: 'namespaces',
      namespace: '',
      syncedNamespaces: [{ name: 'team-1', createdAt: at(-3600) }],
    },
  );
  const object = pod({ ...life, name: 'p', namespace: 'team-1', labels: {} });
  const process = await startProcess({ ledger, clock, objects: { pods: [object] } });
  process.metricsApi = [
    { kind: 'usage', namespace: 'team-1', name: 'p', cpu: 2e9, memory: 2 ** 30 },
  ];
  process.discover([tenant]);
  await pass(clock, 20 + 130);
  expect(windowsOf(await of(ledger, tenant.id))).toEqual(minutes(1, 2));
  expect(coreSeconds(await of(ledger, tenant.id))).toBe(2 * 2 * 60);
  await process.kill();
});
