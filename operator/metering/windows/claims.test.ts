import { describe, expect, test } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { resourceClaim, slice } from '../meters/testing/claims.ts';
import { gpuNode, N1 } from '../meters/testing/gpu-nodes.ts';
import { cluster, pod } from '../meters/testing/objects.ts';
import { total } from '../meters/testing/world.ts';
import type { UsageEvent } from '../../model/event.ts';
import { UNSEEN } from './gaps.ts';
import {
  at,
  clockAt,
  coreSeconds,
  eventsOf,
  pass,
  settingsOf,
  startProcess,
  windowsOf,
} from './testing/harness.ts';

const GPU = 'tenant_gpu_hours';
const life = {
  name: 'c',
  node: 'n1',
  createdAt: at(-100),
  startedAt: at(-90),
  spec: { resourceClaims: [{ name: 'gpu', resourceClaimName: 'c' }] },
};
const user = pod({ ...life, containers: [{ cpu: '1' }] });

function gpuSeconds(events: readonly UsageEvent[]): number {
  return Math.round(total(events, GPU) * 3600 * 1e4) / 1e4;
}

/** A pod with a claim on one GPU, on a node whose device plugins offer none. */
const scene = (pods: readonly RawObject[] = [user], claims = [resourceClaim()]) => ({
  pods,
  claims,
  nodes: [gpuNode({ ...N1, capacity: { cpu: '192' } })],
  slices: [slice()],
});

describe('resource claims', () => {
  for (const what of ['claims', 'slices'] as const) {
    test(`that are forbidden (${what}) are a gap of GPUs and of nothing else, filled later`, async () => {
      const clock = clockAt(-20);
      const ledger = createMemoryLedger();
      const process = await startProcess({ ledger, clock, objects: scene() });
      process.discover([cluster('a')]);
      await pass(clock, 20 + 64);
      expect(gpuSeconds(await eventsOf(ledger))).toBe(60);
      process[what].fail('HTTP 403 Forbidden');
      await pass(clock, 180);
      const during = await eventsOf(ledger);
      expect(gpuSeconds(during)).toBe(60);
      expect(coreSeconds(during)).toBe(240);
      const source = process[what].resource.plural;
      expect(process.collector.gaps()).toEqual([
        { source, scope: 'gpus', from: at(60), to: at(240), reason: 'HTTP 403 Forbidden' },
      ]);
      process[what].recover(scene()[what]);
      await pass(clock, 40);
      const after = await eventsOf(ledger);
      expect(gpuSeconds(after)).toBe(240);
      expect(windowsOf(after, GPU)).toEqual(['12:01:00', '12:02:00', '12:03:00', '12:04:00']);
      // Nobody is billed for the lifetime of a slice.
      const unseen = { source, scope: 'gpus', from: at(64), to: at(244), reason: UNSEEN };
      expect(process.collector.gaps()).toEqual(what === 'claims' ? [unseen] : []);
      await process.kill();
    });
  }

  test('that were forbidden from the beginning hold up nothing but GPUs', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const settings = { current: settingsOf({ CPU_MEMORY_BASIS: 'usage' }) };
    const forbidden = 'resourceclaims';
    const process = await startProcess({ ledger, clock, settings, forbidden, objects: scene() });
    const usage = { cpu: 1e9, memory: 1 };
    process.metricsApi = [{ kind: 'usage', namespace: 'tenant-a', name: 'c', ...usage }];
    process.discover([cluster('a', { cpuMemoryBasis: 'usage' })]);
    await pass(clock, 20 + 184);
    const events = await eventsOf(ledger);
    expect(coreSeconds(events)).toBe(180);
    expect(gpuSeconds(events)).toBe(0);
    expect(process.collector.gaps()).toMatchObject([
      { source: forbidden, scope: 'gpus', from: at(0), reason: 'HTTP 403 Forbidden' },
    ]);
    await process.kill();
  });

  test('are known after a restart, with the devices of a driver that is gone', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const before = await startProcess({ ledger, clock, objects: scene() });
    before.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    await before.kill();
    await clock.advance(100_000);
    const finished = pod({ ...life, phase: 'Succeeded', finishedAt: at(150) });
    const process = await startProcess({
      ledger,
      clock,
      objects: { ...scene([finished], []), slices: [] },
    });
    process.discover([cluster('a')]);
    await pass(clock, 60);
    const events = await eventsOf(ledger);
    // The claim was deleted during the stop, but not before its pod had ended.
    expect(gpuSeconds(events)).toBe(150);
    const skus = new Set(events.filter(({ metric }) => metric === GPU).map(({ sku }) => sku));
    expect([...skus]).toEqual(['NVIDIA-H100-80GB-HBM3']);
    await process.kill();
  });
});
