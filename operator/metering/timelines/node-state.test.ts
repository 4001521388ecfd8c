import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Arrival } from '../../kubernetes/source.ts';
import { gpuNode, N1, type NodeFixture, variant } from '../meters/testing/gpu-nodes.ts';
import { iso, LONG_AGO, NODE_SETTINGS } from '../meters/testing/objects.ts';
import { START } from '../meters/testing/world.ts';
import { decodeTimeline, encodeTimeline } from './journal-text.ts';
import { type NodeView, projectNode } from './node.ts';
import type { NodeState } from './node-state.ts';
import { createObservation, type Observation } from './observation.ts';

const at = (second: number): number => START + second * 1000;
const UNREACHABLE = 'node.kubernetes.io/unreachable';

function observe(unhealthyNodeTaints = NODE_SETTINGS.unhealthyNodeTaints): Observation {
  return createObservation({
    nodeSettings: () => ({ ...NODE_SETTINGS, unhealthyNodeTaints }),
    billedUntil: (present) => present,
  });
}

function report(observation: Observation, fixture: NodeFixture, arrival: Partial<Arrival>): void {
  const view = projectNode(gpuNode(fixture));
  if (view === undefined) throw new Error('fixture without uid or name');
  const { at: now = at(0), knownUntil = now, late = false } = arrival;
  observation.nodes.upserted(view, undefined, { at: now, knownUntil, late });
}

/** Seconds since START, and whether the node was down. */
function spans(observation: Observation): unknown[] {
  return [...observation.nodes.inNamespace('')]
    .flatMap((timeline) => timeline.spans)
    .map(({ from, to, state }) => [
      (from - START) / 1000,
      to === Infinity ? 'open' : (to - START) / 1000,
      state.down ? 'down' : 'up',
    ]);
}

const tainted = (timeAdded?: number, key = UNREACHABLE): NodeFixture =>
  variant(N1, {
    taints: [{ key, ...(timeAdded === undefined ? {} : { timeAdded: iso(timeAdded) }) }],
  });

const born = (LONG_AGO - START) / 1000;

describe('a node is down from when it was, not from when that was learnt', () => {
  test('as far back as the time of the taint, on the first list of all', () => {
    const observation = observe();
    report(observation, tainted(at(-7200)), { at: at(0), knownUntil: 0, late: true });
    expect(spans(observation)).toEqual([
      [born, -7200, 'up'],
      [-7200, 'open', 'down'],
    ]);
  });

  test('a taint without a time counts from its arrival while the node is Ready', () => {
    const observation = observe(['example.com/broken']);
    report(observation, N1, { at: at(0) });
    report(observation, tainted(undefined, 'example.com/broken'), { at: at(30) });
    expect(spans(observation)).toEqual([
      [born, 30, 'up'],
      [30, 'open', 'down'],
    ]);
  });

  test('the earlier of two taints counts, and the end is when the last is gone', () => {
    const observation = observe();
    report(observation, N1, { at: at(0) });
    const both = variant(N1, {
      taints: [
        { key: UNREACHABLE, effect: 'NoSchedule' },
        { key: UNREACHABLE, effect: 'NoExecute', timeAdded: iso(at(20)) },
        { key: 'node.kubernetes.io/not-ready', effect: 'NoExecute', timeAdded: iso(at(10)) },
      ],
    });
    report(observation, both, { at: at(25) });
    report(observation, tainted(at(20)), { at: at(40) });
    report(observation, N1, { at: at(50) });
    expect(spans(observation)).toEqual([
      [born, 10, 'up'],
      [10, 50, 'down'],
      [50, 'open', 'up'],
    ]);
  });

  test('other changes that came with the taint count from their arrival only', () => {
    const observation = observe();
    report(observation, N1, { at: at(0) });
    const relabelled = variant(tainted(at(10)), {
      labels: { 'karpenter.sh/capacity-type': 'spot' },
    });
    report(observation, relabelled, { at: at(25) });
    const states = [...observation.nodes.inNamespace('')].flatMap((timeline) => timeline.spans);
    expect(states.map(({ from, state }) => [from, state.down, state.capacityType])).toEqual([
      [LONG_AGO, false, 'on-demand'],
      [at(10), true, 'on-demand'],
      [at(25), true, 'spot'],
    ]);
  });
});

test('a taint that the settings come to name counts from then, not from when it was added', () => {
  const unhealthy = [UNREACHABLE];
  const observation = observe(unhealthy);
  report(observation, tainted(at(-7200), 'example.com/broken'), {
    at: at(0),
    knownUntil: 0,
    late: true,
  });
  unhealthy.push('example.com/broken');
  observation.nodes.refresh(at(300));
  expect(spans(observation)).toEqual([
    [born, 300, 'up'],
    [300, 'open', 'down'],
  ]);
});

test('nodes that change, come or go between the turns in which settings are taken up are left with what they meant before', () => {
  const BROKEN = 'example.com/broken';
  const named = (node: number, broken: boolean): NodeFixture => {
    const name = `n${node}`;
    return broken ? { ...tainted(at(-7200), BROKEN), name } : { ...N1, name };
  };
  const anyChange = fc.record({
    node: fc.nat(7),
    broken: fc.boolean(),
    gone: fc.boolean(),
    /** Before so many steps. */
    step: fc.nat(6),
  });
  const life = (
    changes: readonly { node: number; broken: boolean; gone: boolean; step: number }[],
  ) => {
    const unhealthy = [UNREACHABLE];
    const observation = observe(unhealthy);
    for (let node = 0; node < 5; node += 1) {
      report(observation, named(node, node % 2 === 0), { at: at(0) });
    }
    unhealthy.push(BROKEN);
    const change = (step: number): void => {
      for (const { node, broken, gone } of changes.filter((each) => each.step === step)) {
        report(observation, named(node, broken), { at: at(300) });
        const view = projectNode(gpuNode(named(node, broken)));
        if (!gone || view === undefined) continue;
        observation.nodes.deleted(view, { at: at(300), knownUntil: at(300), late: false });
      }
    };
    const states = () =>
      [...observation.nodes.inNamespace('')]
        .map(({ name, gone, spans: all }) => ({ name, gone, state: gone || all.at(-1)?.state }))
        .toSorted((a, b) => a.name.localeCompare(b.name));
    return { observation, change, states };
  };
  fc.assert(
    fc.property(fc.array(anyChange, { maxLength: 8 }), (changes) => {
      const complete = life(changes);
      for (let step = 0; step <= 6; step += 1) complete.change(step);
      complete.observation.nodes.refresh(at(300));
      const parts = life(changes);
      const steps = parts.observation.nodes.refreshing(() => at(300));
      for (let step = 0; step <= 6; step += 1) {
        parts.change(step);
        steps.next();
      }
      expect(parts.states()).toEqual(complete.states());
    }),
  );
});

test('a heartbeat splits nothing, nor does a restart', () => {
  const observation = observe();
  report(observation, N1, { at: at(0) });
  report(observation, { ...N1, conditions: [] }, { at: at(10) });
  const [written] = observation.nodes.unwritten.drain().changed;
  if (written === undefined) throw new Error('nothing to journal');
  const read = decodeTimeline<NodeView, NodeState>(encodeTimeline(written));
  if (read === undefined) throw new Error('not readable');
  expect(read.spans).toEqual(written.spans);
  const again = observe();
  again.nodes.restore([read], at(0));
  report(again, N1, { at: at(20) });
  expect(spans(again)).toEqual([[born, 'open', 'up']]);
});
