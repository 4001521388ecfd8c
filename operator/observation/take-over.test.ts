import { expect, test } from 'vitest';
import type { Arrival } from '../kubernetes/source.ts';
import { iso, NODE_SETTINGS, OWN_LABELS, node, pod } from '../metering/testing/objects.ts';
import { START } from '../metering/testing/times.ts';
import { projectLoadBalancer } from './held-objects.ts';
import { decodeTimeline, encodeTimeline } from './journal-text.ts';
import { projectNode } from './node.ts';
import type { NodeSettings } from './node-state.ts';
import { createObservation, type Observation } from './observation.ts';
import { type PodView, projectPod } from './pod.ts';
import type { Timeline } from './timeline.ts';
import type { Observed, Timelines, Tracked } from './timelines.ts';

/** Milliseconds after the start of all; windows are of ten seconds and closed nine after their end. */
const at = (ms: number): number => START + ms;
const live = (ms: number): Arrival => ({ at: at(ms), knownUntil: at(ms), late: false });
const listed = (ms: number, knownMs: number): Arrival => ({
  at: at(ms),
  knownUntil: at(knownMs),
  late: true,
});
/** What a watch tells that goes on where another process was. */
const caughtUp = (ms: number, from: number, until: number): Arrival => ({
  ...live(ms),
  happened: { from: at(from), until: at(until) },
});

function observe(nodeSettings = () => NODE_SETTINGS): Observation {
  return createObservation({ nodeSettings, billedUntil: (present) => present, standsBy: true });
}

/** As the journal gives them back. */
function written<T extends Observed, S>(timelines: Timelines<T, S>): readonly Tracked<T, S>[] {
  const texts = timelines.drain().changed.map(encodeTimeline);
  return texts.flatMap((text) => decodeTimeline<T, S>(text) ?? []);
}

/** The former meter closes a window, writes its journal and is killed; the other process takes over. */
function takeOver<T extends Observed, S>(
  meter: Timelines<T, S>,
  replica: Timelines<T, S>,
  settledMs: number,
): Timeline<S> {
  meter.settle(at(settledMs));
  const journal = written(meter);
  replica.adopt(journal, at(settledMs));
  const [first] = journal;
  const found = first && replica.find(first.view);
  if (found === undefined) throw new Error('nothing was written');
  return found;
}

function times({ spans }: Timeline<unknown>): readonly (readonly number[])[] {
  return spans.map(({ from, to }) => [from - START, to - START]);
}

const namespace = (name: string) => ({ ...OWN_LABELS, 'vcluster.loft.sh/namespace': name });

function podOf(labels: Readonly<Record<string, string>>, finishedMs?: number): PodView {
  const projected = projectPod(
    pod({
      name: 'p',
      labels,
      createdAt: at(1_000),
      startedAt: at(2_000),
      ...(finishedMs !== undefined && { phase: 'Succeeded', finishedAt: at(finishedMs) }),
    }),
  );
  if (projected === undefined) throw new Error('fixture without uid or name');
  return projected;
}

function balancer() {
  const projected = projectLoadBalancer({
    metadata: {
      uid: 'uid-lb',
      name: 'lb',
      namespace: 'tenant-a',
      creationTimestamp: iso(at(8_000)),
      labels: OWN_LABELS,
    },
    spec: { type: 'LoadBalancer' },
    status: { loadBalancer: { ingress: [{ ip: '203.0.113.1' }] } },
  });
  if (projected === undefined) throw new Error('fixture without uid or name');
  return projected;
}

test('what a replica found on its first list is billed from when the former meter was told of it, not from its creation', () => {
  const [meter, replica] = [observe().loadBalancers, observe().loadBalancers];
  meter.upserted(balancer(), undefined, live(8_758));
  replica.upserted(balancer(), undefined, listed(9_500, 7_000));
  replica.deleted(balancer(), live(20_300));
  const found = takeOver(meter, replica, 10_000);
  expect(times(found)).toEqual([[8_758, 20_300]]);
  expect([...replica.late()]).toEqual([]);
});

test('a change that neither process has seen, and each has guessed otherwise, is not carried when the pod has ended since', () => {
  const [meter, replica] = [observe().pods, observe().pods];
  for (const [pods, from, until] of [
    [meter, 6_188, 6_802],
    [replica, 6_000, 6_831],
  ] as const) {
    const earlier = observe().pods;
    earlier.upserted(podOf(namespace('a')), undefined, live(2_100));
    pods.restore(written(earlier), at(0));
    pods.upserted(podOf(namespace('b')), undefined, caughtUp(9_000, from, until));
  }
  replica.upserted(podOf(namespace('b'), 14_000), undefined, live(14_200));
  const found = takeOver(meter, replica, 10_000);
  expect(times(found).at(-1)).toEqual([6_802, 14_000]);
  expect([...replica.late()]).toEqual([]);
});

test('a replica that was started after a pod had changed its namespace leaves the time before to the one that it had', () => {
  const [meter, replica] = [observe().pods, observe().pods];
  meter.upserted(podOf(namespace('a')), undefined, live(2_100));
  meter.upserted(podOf(namespace('b')), undefined, live(5_300));
  replica.upserted(podOf(namespace('b')), undefined, listed(7_000, 1_000));
  replica.upserted(podOf(namespace('b'), 14_000), undefined, live(14_200));
  const found = takeOver(meter, replica, 10_000);
  expect(times(found).slice(-2)).toEqual([
    [2_000, 5_300],
    [5_300, 14_000],
  ]);
  expect([...replica.late()]).toEqual([]);
});

test('an end that the API tells after its window was closed is a late fact, though the replica has seen less of the pod', () => {
  const [meter, replica] = [observe().pods, observe().pods];
  meter.upserted(podOf(namespace('a')), undefined, live(2_100));
  meter.upserted(podOf(namespace('b')), undefined, live(5_300));
  replica.upserted(podOf(namespace('b')), undefined, listed(7_000, 1_000));
  replica.upserted(podOf(namespace('b'), 8_000), undefined, live(20_200));
  const found = takeOver(meter, replica, 10_000);
  expect(times(found).at(-1)).toEqual([5_300, 8_000]);
  expect([...replica.late()]).toEqual([found]);
  expect(found.billed?.at(-1)?.to).toBe(Infinity);
});

test('an object that is again what the former meter wrote was something else meanwhile, and is billed as that', () => {
  const [meter, replica] = [observe().pods, observe().pods];
  for (const pods of [meter, replica]) {
    pods.upserted(podOf(namespace('a')), undefined, live(2_100));
  }
  replica.upserted(podOf(namespace('b')), undefined, live(20_500));
  replica.upserted(podOf(namespace('a')), undefined, live(23_500));
  const found = takeOver(meter, replica, 10_000);
  expect(times(found).slice(-3)).toEqual([
    [2_000, 20_500],
    [20_500, 23_500],
    [23_500, Infinity],
  ]);
});

test('settings that change while nobody meters hold from then on', () => {
  let settings: NodeSettings = NODE_SETTINGS;
  const [meter, replica] = [observe().nodes, observe(() => settings).nodes];
  const view = projectNode(node('n', { class: 'gold' }));
  if (view === undefined) throw new Error('fixture without uid or name');
  for (const nodes of [meter, replica]) nodes.upserted(view, undefined, live(2_100));
  settings = { ...NODE_SETTINGS, skuLabel: 'class' };
  replica.refresh(at(21_000));
  const found = takeOver(meter, replica, 10_000);
  expect(found.spans.at(-1)).toMatchObject({ from: at(21_000), state: { sku: 'gold' } });
});
