import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { cluster, iso, LONG_AGO } from '../meters/testing/objects.ts';
import { FINAL_REASONS, NO_TENANCY } from './gaps.ts';
import {
  at,
  clockAt,
  coreSeconds,
  eventsOf,
  pass,
  type Process,
  running,
  startProcess,
  windowsOf,
} from './testing/harness.ts';

const A = cluster('a');

function lostIn(process: Process) {
  return process.collector.gaps().filter(({ reason }) => reason === NO_TENANCY);
}

/**
 * A restart whose first pass finds nothing and whose second pass finds these tenant clusters.
 * Meanwhile the windows of the last ten minutes wait.
 */
async function foundLate(
  clusters: readonly TenantCluster[],
  scene: {
    readonly pods?: readonly RawObject[];
    /** Namespaces before the restart, if they differ. */
    readonly before?: readonly RawObject[];
    readonly after?: readonly RawObject[];
  } = {},
) {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const { pods = [running], before = [], after = before } = scene;
  const first = await startProcess({ ledger, clock, objects: { pods, namespaces: before } });
  first.discover([]);
  await pass(clock, 20 + 70);
  await first.kill();
  await clock.advance(600_000);
  const objects = { pods, namespaces: after };
  const process = await startProcess({ ledger, clock, objects });
  process.discover([]);
  const passedAt = clock.now();
  await pass(clock, 1);
  process.discover(clusters);
  await pass(clock, 60);
  return { clock, ledger, process, passedAt };
}

describe('windows in which pods of a tenant cluster ran', () => {
  test('are closed with no events and no gap where a pass of discovery had missed it', async () => {
    const { ledger, process, passedAt } = await foundLate([A]);
    const closed = Math.floor(passedAt / 60_000) * 60_000;
    expect(lostIn(process)).toEqual([
      { source: 'discovery', scope: A.id, from: at(60), to: closed, reason: NO_TENANCY },
    ]);
    const seconds = await process.metrics.gapSeconds.get();
    const own = seconds.values.find(({ labels }) => labels.source === 'discovery');
    expect(own?.value).toBe((closed - at(60)) / 1_000);
    const [report] = [...process.collector.reports()].filter(
      ({ windowEnd }) => windowEnd === '2026-03-01T12:05:00Z',
    );
    expect(report).toMatchObject({ events: 0 });
    expect(report?.gaps.some(({ scope }) => scope === A.id)).toBe(true);
    // It is billed from the pass on.
    expect(coreSeconds(await eventsOf(ledger))).toBe((at(720) - passedAt) / 1_000);
    await process.kill();
  });

  test.each([
    ['that is excluded', [{ ...A, excluded: true }]],
    ['that was created later', [{ ...A, createdAt: at(3_600) }]],
    ['in another namespace', [cluster('b', {}, { namespace: 'tenant-b' })]],
  ])('are a gap of a tenant cluster %s', async (_, clusters) => {
    const { process } = await foundLate(clusters);
    expect(lostIn(process)).toEqual([]);
    await process.kill();
  });

  test('are a gap where nothing of them runs yet', async () => {
    const waiting = { ...running, status: { phase: 'Pending' } };
    const { process } = await foundLate([A], { pods: [waiting] });
    expect(lostIn(process)).toEqual([]);
    await process.kill();
  });

  test('are a gap before any pass of this process: what the journal says may be older than the window', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const first = await startProcess({ ledger, clock, objects: { pods: [running] } });
    first.discover([]);
    await pass(clock, 20);
    first.pods.fail('connection refused');
    await pass(clock, 200);
    first.discover([]);
    await pass(clock, 10);
    first.discover([A]);
    await first.stop();
    await clock.advance(1_000);
    const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
    await pass(clock, 20);
    expect(ledger.stats().lastWindowEnd).toBe(at(180));
    expect(process.observation.tenantClusters.current).toEqual([A]);
    expect(windowsOf(await eventsOf(ledger))).toEqual([]);
    expect(lostIn(process)).toEqual([]);
    await process.kill();
  });
});

describe('a namespace that its Namespace gives to a tenant', () => {
  const synced = { name: 'tenant-a', createdAt: LONG_AGO };
  const named: TenantCluster = {
    ...A,
    source: 'namespaces',
    namespace: '',
    syncedNamespaces: [synced],
  };
  const namespace = (labels: Readonly<Record<string, string>>): RawObject => ({
    metadata: { uid: 'uid-ns', name: 'tenant-a', creationTimestamp: iso(LONG_AGO), labels },
  });

  test('loses windows without a gap where it has reported so all along', async () => {
    const { process } = await foundLate([named], { before: [namespace({ tenant: 'acme' })] });
    expect(lostIn(process)).toMatchObject([{ scope: A.id, from: at(60) }]);
    await process.kill();
  });

  test('has a gap for the time before it reported so', async () => {
    const { process } = await foundLate([named], {
      before: [namespace({})],
      after: [namespace({ tenant: 'acme' })],
    });
    expect(lostIn(process)).toEqual([]);
    await process.kill();
  });
});

test('whatever passes find while windows wait, each window has events or a gap', async () => {
  const step = fc.record({ seconds: fc.integer({ min: 1, max: 200 }), found: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 6 }), async (steps) => {
      const clock = clockAt(-20);
      const ledger = createMemoryLedger();
      const process = await startProcess({ ledger, clock, objects: { pods: [running] } });
      process.discover([]);
      process.pods.fail('connection refused');
      for (const { seconds, found } of steps) {
        await pass(clock, seconds);
        process.discover(found ? [A] : []);
      }
      process.discover([A]);
      process.pods.recover([running]);
      await pass(clock, 70);
      const last = Math.floor((clock.now() - 5_000) / 60_000) * 60_000;
      const billed = new Set(windowsOf(await eventsOf(ledger)));
      const gaps = process.collector.gaps().filter(({ source }) => source === 'discovery');
      const silent: string[] = [];
      for (let end = at(60); end <= last; end += 60_000) {
        const isGap = gaps.some(({ from, to }) => from <= end - 60_000 && to >= end);
        const shown = new Date(end).toISOString().slice(11, 19);
        if (billed.has(shown) === isGap) silent.push(shown);
      }
      expect(silent).toEqual([]);
      expect(gaps.every(({ reason }) => FINAL_REASONS.has(reason))).toBe(true);
      await process.kill();
    }),
    { numRuns: 30 },
  );
});
