import { expect, test } from 'vitest';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { claim, cluster, iso, node, OWN_LABELS, pod } from '../metering/testing/objects.ts';
import { nanosFromDecimal } from '../model/decimal.ts';
import { quantityOf } from '../model/catalog.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { LivePart } from './live-usage.ts';
import {
  at,
  clockAt,
  eventsOf,
  life,
  pass,
  type Process,
  settingsOf,
  startProcess,
} from './testing/harness.ts';

const NAMESPACE = 'tenant-a';
const PLACE = { namespace: NAMESPACE, since: Number.NEGATIVE_INFINITY };
const SPOT = { 'karpenter.sh/capacity-type': 'spot' };
const ON_DEMAND = { 'karpenter.sh/capacity-type': 'on-demand' };
const pods = ['p', 'q', 'r'].map((name) =>
  pod({ ...life, name, node: 'n1', containers: [{ cpu: '1', memory: '2Gi' }] }),
);

async function start(ledger: Ledger) {
  const clock = clockAt(-20);
  const objects = { pods, nodes: [node('n1', ON_DEMAND), node('n2', SPOT)] };
  const volumes = [claim({ name: 'data', labels: OWN_LABELS })];
  const process = await startProcess({ clock, ledger, objects: { ...objects, volumes } });
  process.discover([cluster('a')]);
  await pass(clock, 21);
  return { clock, process };
}

function partsOf({ collector }: Process): readonly LivePart[] {
  const { live } = collector;
  const measured = [...(live.pods(PLACE) ?? [])].map(([, part]) => part);
  return [...measured, ...(live.others(PLACE) ?? [])];
}

/** Of each charge so many nano-units at a moment, if everything goes on. */
function comingTo(parts: readonly LivePart[], moment: number): ReadonlyMap<string, number> {
  const amounts = new Map<string, number>();
  for (const { windowStart, usage } of parts) {
    for (const { identity, began, rate } of usage) {
      const { metric, dimensions } = identity;
      const { divisor } = quantityOf(metric);
      const amount = Number(began + rate * BigInt(moment - windowStart)) / Number(divisor);
      const name = `${metric} ${dimensions?.['capacity_type'] ?? ''}`;
      amounts.set(name, (amounts.get(name) ?? 0) + amount);
    }
  }
  return amounts;
}

test('parts come to what their window does, of pods that end, begin or move, and of everything else', async () => {
  const ledger = createMemoryLedger();
  const { clock, process } = await start(ledger);
  await pass(clock, 20);
  process.pods.apply(
    pod({ ...life, name: 'q', node: 'n1', phase: 'Succeeded', finishedAt: at(12) }),
  );
  process.pods.apply(pod({ ...life, name: 's', node: 'n2', createdAt: at(15), startedAt: at(17) }));
  await pass(clock, 20);
  const foreseen = comingTo(partsOf(process), at(60));
  await pass(clock, 30);
  await process.stop();
  const events = (await eventsOf(ledger)).filter((event) => event.window_end === iso(at(60)));
  expect(events.length).toBeGreaterThan(3);
  expect(events).toHaveLength(foreseen.size);
  for (const { metric, dimensions, quantity } of events) {
    const amount = foreseen.get(`${metric} ${dimensions?.['capacity_type'] ?? ''}`) ?? Number.NaN;
    expect(Math.abs(amount - Number(nanosFromDecimal(quantity)))).toBeLessThan(1);
  }
});

test('one pod is measured by itself, and one that nobody knows uses nothing', async () => {
  const { process } = await start(createMemoryLedger());
  const { live } = process.collector;
  const [[uid, part] = ['']] = [...(live.pods(PLACE) ?? [])];
  const alone = [...(live.pods(PLACE, [uid, 'nobody']) ?? [])];
  expect(alone).toStrictEqual([
    [uid, part],
    ['nobody', { ...part, usage: [] }],
  ]);
  await process.stop();
});

test('a node that becomes another, and a tenant cluster that is billed otherwise, are noticed by nobody else', async () => {
  const { clock, process } = await start(createMemoryLedger());
  const { live } = process.collector;
  const unseen = (): unknown => [...live.unseen([NAMESPACE, 'tenant-b'])];
  live.unseen([NAMESPACE, 'tenant-b']);
  expect(unseen()).toStrictEqual([]);
  process.nodes.apply(node('n2', ON_DEMAND));
  expect(unseen()).toStrictEqual([]);
  process.nodes.apply(node('n1', SPOT));
  const uids = [...(live.pods(PLACE) ?? [])].map(([uid]) => uid);
  expect(unseen()).toStrictEqual([[NAMESPACE, uids]]);
  const rates = comingTo(partsOf(process), clock.now() + 1000);
  expect(rates.get('tenant_cpu_core_hours spot')).toBeGreaterThan(0);
  process.discover([cluster('a', {}, { project: 'another' })]);
  expect(unseen()).toStrictEqual([[NAMESPACE, 'all']]);
  process.discover([cluster('a', {}, { project: 'another' })]);
  expect(unseen()).toStrictEqual([]);
  await process.stop();
});

test('what is billed by usage is told of with every sample, and where there is none to be had', async () => {
  const clock = clockAt(-20);
  const settings = { current: settingsOf({ CPU_MEMORY_BASIS: 'usage' }) };
  const process = await startProcess({
    clock,
    ledger: createMemoryLedger(),
    settings,
    objects: { pods },
  });
  const byUsage = cluster('a', { cpuMemoryBasis: 'usage' });
  process.discover([byUsage, cluster('b', {}, { namespace: 'tenant-b' })]);
  const told: string[][] = [];
  process.collector.onSampled((namespaces) => void told.push([...namespaces]));
  await pass(clock, 60);
  expect(told.length).toBeGreaterThan(0);
  process.metricsApi = new Error('away');
  const before = told.length;
  await pass(clock, 60);
  expect(told.length).toBeGreaterThan(before);
  expect(new Set(told.flat())).toStrictEqual(new Set([NAMESPACE]));
  await process.stop();
});
