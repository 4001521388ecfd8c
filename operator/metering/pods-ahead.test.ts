import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { RawObject } from '../kubernetes/source.ts';
import { atOnce } from '../model/at-once.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import { meterCpuAndMemory } from './cpu-memory.ts';
import { createFindings } from './findings.ts';
import type { MeasuredAhead, MeterSettings } from './meter.ts';
import { type AheadInput, PodsAhead } from './pods-ahead.ts';
import { addCharges, createTally, SHARES_KEPT, type Shares } from './tally.ts';
import { cluster, iso, LONG_AGO, node, NODE_SETTINGS, pod } from './testing/objects.ts';
import { createWorld, HOUR, START, type World } from './testing/world.ts';

const END = START + HOUR;
const SETTINGS: MeterSettings = {
  region: 'default',
  regionFromNode: false,
  sampleHoldMs: HOUR,
  gpuResources: NODE_SETTINGS.gpuResources,
  draGpuDrivers: [],
};
const PODS = 8;
/** The last of them is nobody's, unless a syncer has left its label there. */
const NAMESPACES = ['tenant-a', 'tenant-b', 'synced', 'other'];
const NODES = ['n1', 'n2', 'n3'];
const OWNERS: Readonly<Record<string, string>> = { 'tenant-a': 'a', 'tenant-b': 'b' };

type Basis = TenantCluster['metering']['cpuMemoryBasis'];

/** Tenant cluster `a`, whose syncer maps a namespace, and `b`. */
function clusters(basis: Basis = 'max'): readonly TenantCluster[] {
  const syncedNamespaces = [{ name: 'synced', createdAt: LONG_AGO }];
  return [
    cluster('a', { cpuMemoryBasis: basis }, { syncedNamespaces }),
    cluster('b', { podLifetime: 'scheduled' }, { namespace: 'tenant-b' }),
  ];
}

/** How a version of one of eight pods differs from the others. */
interface Version {
  readonly managedBy?: string;
  /** Seconds after the start of the window. */
  readonly finished?: number;
  readonly cpu?: string;
}

function podAt(index: number, { managedBy, finished, cpu = '1' }: Version = {}): RawObject {
  const namespace = NAMESPACES[index % NAMESPACES.length] ?? '';
  const owner = managedBy ?? OWNERS[namespace];
  return pod({
    name: `p${index}`,
    namespace,
    node: NODES[index % NODES.length] ?? null,
    labels: owner === undefined ? {} : { 'vcluster.loft.sh/managed-by': owner },
    createdAt: START + (index - PODS / 2) * 900_000,
    containers: [{ cpu, memory: '1Gi' }],
    ...(finished !== undefined && { phase: 'Succeeded', finishedAt: START + finished * 1000 }),
  });
}

/** A node that has been unreachable since so many seconds after the start of the window. */
function downSince(name: string, seconds: number): RawObject {
  const timeAdded = iso(START + seconds * 1000);
  const taints = [{ key: 'node.kubernetes.io/unreachable', effect: 'NoExecute', timeAdded }];
  return { ...node(name, { 'karpenter.sh/capacity-type': 'on-demand' }), spec: { taints } };
}

function inputOf({ observation }: World): AheadInput {
  const window = { start: START, end: END };
  return { window, observation, meteredFrom: START - HOUR, learntUntil: 0, settings: SETTINGS };
}

/** What the window comes to, as lists, since orders count. */
function measured(input: AheadInput, ahead?: MeasuredAhead) {
  const [tally, findings] = [createTally(), createFindings()];
  atOnce(meterCpuAndMemory({ ...input, tally, findings, ...omitUndefined({ ahead }) }));
  return {
    charges: [...tally.charges()],
    unattributed: [...findings.unattributed],
    unsampled: [...findings.unsampled],
    machines: [...findings.machines],
  };
}

function begun(initial: readonly number[] = [0, 1, 2, 3]): World {
  const world = createWorld();
  for (const name of NODES) world.node(node(name, { 'karpenter.sh/capacity-type': 'on-demand' }));
  world.clusters(clusters());
  for (const index of initial) world.pod(podAt(index));
  return world;
}

/** Something that arrives after the window, of which it may say something. */
type Step = (world: World, at: number) => void;

const anyPod = fc.nat(PODS - 1);
const second = fc.integer({ min: -3_600, max: 3_700 });
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(anyPod, fc.constantFrom('1', '2')).map(
    ([index, cpu]): Step =>
      (world, at) =>
        world.pod(podAt(index, { cpu }), at),
  ),
  fc.tuple(anyPod, second).map(
    ([index, finished]): Step =>
      (world, at) =>
        world.pod(podAt(index, { finished }), at),
  ),
  fc.tuple(anyPod, fc.constantFrom('a', 'b', 'c')).map(
    ([index, managedBy]): Step =>
      (world, at) =>
        world.pod(podAt(index, { managedBy }), at),
  ),
  anyPod.map(
    (index): Step =>
      (world, at) =>
        world.podGone(podAt(index), at),
  ),
  fc.tuple(fc.constantFrom(...NODES), fc.constantFrom('spot', 'on-demand')).map(
    ([name, type]): Step =>
      (world, at) =>
        world.node(node(name, { 'karpenter.sh/capacity-type': type }), at),
  ),
  fc.constantFrom(...NODES).map(
    (name): Step =>
      (world, at) =>
        world.nodeGone(node(name), at),
  ),
  fc.tuple(fc.constantFrom(...NODES), second).map(
    ([name, since]): Step =>
      (world, at) =>
        world.node(downSince(name, since), at),
  ),
  fc.tuple(anyPod, second).map(
    ([index, at]): Step =>
      (world) =>
        world.sample({ [`p${index}`]: ['500m', '1Gi'] }, START + at * 1000),
  ),
  fc.constantFrom<Basis>('max', 'usage', 'requests').map(
    (basis): Step =>
      (world, at) =>
        world.clusters(clusters(basis), at),
  ),
  fc.constant<Step>((world, at) => world.clusters(clusters().slice(1), at)),
  fc.boolean().map(
    (refused): Step =>
      ({ observation: { refusedNamespaces } }) => {
        if (refused) refusedNamespaces.add('other');
        else refusedNamespaces.delete('other');
      },
  ),
);

describe('pods that were measured before their window was closed', () => {
  test('come to the same as all of them at that moment, whatever arrives between the turns', () => {
    const steps = fc.array(fc.record({ step: anyStep, after: fc.nat(6) }), { maxLength: 12 });
    const initial = fc.subarray([...Array(PODS).keys()]);
    fc.assert(
      fc.property(initial, steps, fc.boolean(), (pods, all, isComplete) => {
        const world = begun(pods);
        const ahead = new PodsAhead(inputOf(world));
        const turns = ahead.measure();
        for (const [index, { step, after }] of all.entries()) {
          for (let turn = 0; turn < after; turn += 1) turns.next();
          step(world, END + index * 1000);
        }
        if (isComplete) Array.from(turns);
        const whole = measured(inputOf(world));
        expect(measured(inputOf(world), ahead)).toEqual(whole);
      }),
      { numRuns: 500 },
    );
  });
});

describe('pods that were measured before their window ended', () => {
  test('come to the same as all of them once it is closed, however often what has changed was measured again', () => {
    const anyMoment = fc.record({
      step: anyStep,
      after: fc.nat(6),
      isAgain: fc.boolean(),
    });
    fc.assert(
      fc.property(
        fc.subarray([...Array(PODS).keys()]),
        fc.array(anyMoment, { maxLength: 16 }),
        fc.boolean(),
        (pods, all, isComplete) => {
          const world = begun(pods);
          let ahead = new PodsAhead(inputOf(world));
          let turns = ahead.measure();
          for (const [index, { step, after, isAgain }] of all.entries()) {
            if (isAgain) {
              if (!ahead.holds(inputOf(world))) ahead = new PodsAhead(inputOf(world));
              turns = ahead.measure();
            }
            for (let turn = 0; turn < after; turn += 1) turns.next();
            step(world, END + (index - 8) * 1000);
          }
          if (isComplete) Array.from(turns);
          const whole = measured(inputOf(world));
          expect(measured(inputOf(world), ahead)).toEqual(whole);
        },
      ),
      { numRuns: 500 },
    );
  });

  test('are measured again on nodes that have changed since, and only those', () => {
    const world = begun(RUNNING);
    const ahead = new PodsAhead(inputOf(world));
    Array.from(ahead.measure());
    world.node(downSince('n1', 3_000), END - 2_000);
    Array.from(ahead.measure());
    const steps = Array.from(ahead.measure());
    // Nothing is left: one look for each namespace, and once more.
    expect(steps).toHaveLength(2 * NAMESPACES.length);
    const taken: string[] = [];
    measured(inputOf(world), {
      take: (input, namespace) => {
        const isTaken = ahead.take(input, namespace);
        if (isTaken) taken.push(namespace);
        return isTaken;
      },
    });
    expect(taken.toSorted()).toEqual(ALL);
  });
});

const RUNNING = [0, 1, 2, 3, 4, 5];

/**
 * The namespaces that need not be measured when the window is closed, where something arrives after so many
 * turns; after all of them by default.
 */
function taken(step: Step, after = Infinity): readonly string[] {
  const world = begun(RUNNING);
  const ahead = new PodsAhead(inputOf(world));
  const turns = ahead.measure();
  for (let turn = 0; turn < after; turn += 1) {
    if (turns.next().done === true) break;
  }
  step(world, END + 2_000);
  Array.from(turns);
  const names: string[] = [];
  const whole = measured(inputOf(world));
  const withAhead = measured(inputOf(world), {
    take: (input, namespace) => {
      const isTaken = ahead.take(input, namespace);
      if (isTaken) names.push(namespace);
      return isTaken;
    },
  });
  expect(withAhead).toEqual(whole);
  return names.toSorted();
}

const ALL = NAMESPACES.toSorted();
const without = (...names: readonly string[]): readonly string[] =>
  ALL.filter((name) => !names.includes(name));

describe('of pods that were measured before', () => {
  test.each<readonly [what: string, step: Step]>([
    ['nothing', () => undefined],
    ['what finishes after the window', (world, at) => world.pod(podAt(0, { finished: 3_601 }), at)],
    ['what goes after the window', (world, at) => world.podGone(podAt(0), at)],
    ['usage after the window', (world) => world.sample({ p0: ['500m', '1Gi'] }, END)],
    [
      'a node that changes after the window',
      (world, at) => world.node(node('n1', { 'karpenter.sh/capacity-type': 'spot' }), at),
    ],
  ])('none are measured once more for %s', (_what, step) => {
    expect(taken(step)).toEqual(ALL);
  });

  test('only those of a namespace are measured once more in which one finished in the window', () => {
    const step: Step = (world, at) => world.pod(podAt(0, { finished: 3_599 }), at);
    expect(taken(step)).toEqual(without('tenant-a'));
  });

  test('only those of a namespace are measured once more in which one came in the window', () => {
    const step: Step = (world, at) => world.pod(podAt(7), at);
    expect(taken(step)).toEqual(without('other'));
  });

  test('only those of namespaces are measured once more with pods on a node that went down in the window', () => {
    const step: Step = (world, at) => world.node(downSince('n1', 3_000), at);
    expect(taken(step)).toEqual(without('tenant-a', 'other'));
  });

  test('only those of a namespace are measured once more that is given to nobody', () => {
    const step: Step = ({ observation }) => void observation.refusedNamespaces.add('other');
    expect(taken(step)).toEqual(without('other'));
  });

  test('none are left for what changed while others were measured', () => {
    const step: Step = (world, at) => world.pod(podAt(0, { finished: 3_599 }), at);
    expect(taken(step, RUNNING.length)).toEqual(ALL);
  });

  test.each<readonly [what: string, step: Step]>([
    ['usage in the window', (world) => world.sample({ p0: ['500m', '1Gi'] }, END - 1)],
    ['other tenant clusters', (world, at) => world.clusters(clusters('usage'), at)],
  ])('all are measured once more for %s', (_what, step) => {
    expect(taken(step)).toEqual([]);
  });

  test('those on a node are measured once more that turns out to have been there', () => {
    const world = createWorld();
    for (const name of ['n1', 'n2']) world.node(node(name));
    world.clusters(clusters());
    for (const index of [0, 1, 2, 3]) world.pod(podAt(index));
    const ahead = new PodsAhead(inputOf(world));
    Array.from(ahead.measure());
    // Pod 2 is on it.
    world.node(node('n3', { 'karpenter.sh/capacity-type': 'spot' }), END + 2_000);
    const whole = measured(inputOf(world));
    expect(measured(inputOf(world), ahead)).toEqual(whole);
    const types = whole.charges.map(({ identity }) => identity.dimensions?.['capacity_type']);
    expect(types).toContain('spot');
  });

  test('nothing holds in another window, or with other settings', () => {
    const world = begun();
    const input = inputOf(world);
    for (const other of [
      { ...input, window: { start: END, end: END + HOUR } },
      { ...input, settings: { ...SETTINGS, region: 'elsewhere' } },
    ]) {
      const ahead = new PodsAhead(input);
      Array.from(ahead.measure());
      expect(measured(other, ahead)).toEqual(measured(other));
    }
  });
});

test('shares beyond those that are kept are counted where charges are put together', () => {
  const [whole, part] = [createTally(), createTally()];
  const identity = {
    tenant: 't',
    metric: 'tenant_cpu_core_hours',
    region: 'r',
    resource_id: 'x',
  } as const;
  const object = { uid: 'u', namespace: 'n', name: 'p' };
  const evidence = { kind: 'Pod', object, state: {}, from: 0, to: 1, carried: false } as const;
  const shares = (count: number): Shares => ({
    evidence: Array.from({ length: count }, () => ({ ...evidence })),
    rates: Array.from({ length: count }, () => 1n),
    amounts: Array.from({ length: count }, () => 1),
    rest: { count: 2, amount: 3 },
  });
  const before = whole.charge(identity);
  Object.assign(before, { amount: 5n, unsureMs: 1, shares: shares(SHARES_KEPT - 1) });
  before.properties['volumes'] = 1;
  const other = part.charge(identity);
  Object.assign(other, { amount: 7n, unsureMs: 4, shares: shares(3) });
  Object.assign(other.properties, { volumes: 2, basis: 'max' });
  addCharges(whole, part.charges());
  const [charge] = [...whole.charges()];
  expect(charge).toMatchObject({
    amount: 12n,
    unsureMs: 4,
    properties: { volumes: 3, basis: 'max' },
  });
  expect(charge?.shares?.evidence).toHaveLength(SHARES_KEPT);
  expect(charge?.shares?.rates).toHaveLength(SHARES_KEPT);
  expect(charge?.shares?.amounts).toHaveLength(SHARES_KEPT);
  expect(charge?.shares?.rest).toEqual({ count: 6, amount: 8 });
});
