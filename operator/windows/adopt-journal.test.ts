import { expect, test } from 'vitest';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { RecordChange } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { cluster, NODE_SETTINGS } from '../metering/testing/objects.ts';
import { START } from '../metering/testing/times.ts';
import { HeardRounds } from '../observation/heard-rounds.ts';
import { createObservation, type Observation } from '../observation/observation.ts';
import { projectPod } from '../observation/pod.ts';
import { createMemoryLogger } from '../telemetry/testing/memory-logger.ts';
import { adoptJournal } from './adopt-journal.ts';
import { STATE_KEY, TENANT_CLUSTERS_KEY, TIMELINE_PREFIX } from './journal.ts';
import { clockAt, pass, running, startProcess } from './testing/harness.ts';

const at = (seconds: number): number => START + seconds * 1_000;
const born = (name: string, seconds: number) => cluster(name, {}, { createdAt: at(seconds) });

/** What a look found that came at that second, or every ten seconds without change since. */
type Looks = Readonly<Record<number, readonly TenantCluster[]>>;

function standingBy(): Observation {
  return createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
    standsBy: true,
  });
}

/**
 * A meter and a replica look at the tenant clusters. The meter is killed at second 120, and has closed the window that ended at 60 by second 90; the replica takes
 * over.
 */
async function takeOver(meters: Looks, replicas: Looks) {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const meter = await startProcess({ ledger, clock });
  const observation = standingBy();
  const rounds = new HeardRounds();
  let [found, heard] = [meters[-20] ?? [], replicas[-20] ?? []];
  for (let second = -20; second < 120; second += 1) {
    const [next, other] = [meters[second], replicas[second]];
    if (next !== undefined || second % 10 === 0) meter.discover((found = next ?? found));
    if (other !== undefined || second % 10 === 0) {
      heard = other ?? heard;
      rounds.add(heard, clock.now());
      observation.tenantClusters.observe(heard, clock.now());
    }
    await pass(clock, 1);
  }
  await meter.kill();
  await adoptJournal(ledger, observation, { logger: createMemoryLogger(), clock, rounds });
  return observation.tenantClusters;
}

const times = (spans: readonly { readonly from: number; readonly to: number }[]) =>
  spans.map(({ from, to }) => [(from - START) / 1_000, (to - START) / 1_000]);

test('a tenant cluster that came and went since the meter last wrote has what its pods use until they end', async () => {
  const a = born('a', -100);
  const left = born('left', 111);
  const rounds = { [-20]: [a], 112: [a, left] };
  const known = await takeOver(rounds, { ...rounds, 117: [a] });
  expect(times(known.statesOf(left.id, at(0), at(200)))).toEqual([[111, 117]]);
  expect(known.leaving).toEqual([{ cluster: left, leftAt: at(117) }]);
  expect(known.learntAfter(0)).toEqual([{ cluster: left, from: at(111) }]);
  expect(known.current).toEqual([a]);
});

test('a tenant cluster that the journal has stays as closed windows had it, whenever the replica has found it', async () => {
  const a = born('a', -100);
  const known = await takeOver({ [-20]: [a] }, { 30: [a] });
  expect(times(known.statesOf(a.id, at(0), at(200)))).toEqual([[-100, Infinity]]);
  expect(known.learntAfter(0)).toEqual([]);
});

test('a tenant cluster that a replica saw for some moments longer than the meter is not billed a second time', async () => {
  const a = born('a', -100);
  const known = await takeOver({ [-20]: [a], 85: [] }, { [-20]: [a], 91: [a], 92: [] });
  expect(times(known.statesOf(a.id, at(0), at(200)))).toEqual([[-100, 85]]);
  expect(known.leaving).toEqual([{ cluster: a, leftAt: at(85) }]);
  expect(known.learntAfter(0)).toEqual([]);
});

test('a tenant cluster that was installed anew after the meter had seen it go is another one', async () => {
  const a = born('a', -100);
  const again = born('a', 111);
  const replicas = { [-20]: [a], 85: [], 112: [again] };
  const known = await takeOver({ [-20]: [a], 85: [] }, replicas);
  expect(times(known.statesOf(a.id, at(0), at(200)))).toEqual([
    [-100, 85],
    [111, Infinity],
  ]);
});

test('a customer that changed after the last look of the journal has what came since', async () => {
  const a = born('a', -100);
  const moved = { ...a, tenant: 'other' };
  const rounds = { [-20]: [a], 110: [moved] };
  const known = await takeOver(rounds, rounds);
  const states = known.statesOf(a.id, at(0), at(200));
  expect(states.map(({ state }) => state.tenant)).toEqual([a.tenant, 'other']);
  expect(times(states).at(-1)).toEqual([110, Infinity]);
});

test('a replica of a newer release takes from its own watch what the older one did not take out of a pod', async () => {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const meter = await startProcess({ ledger, clock, objects: { pods: [running] } });
  meter.discover([cluster('a')]);
  const observation = standingBy();
  const view = projectPod(running);
  if (view === undefined) throw new Error('fixture without uid or name');
  const listed = { at: clock.now(), knownUntil: clock.now(), late: true };
  observation.pods.upserted(view, undefined, listed);
  await pass(clock, 200);
  await meter.kill();
  // What it was told at its start is settled long ago.
  observation.pods.settle(at(120));
  const changes: RecordChange[] = [];
  for await (const [key, text] of ledger.records(`${TIMELINE_PREFIX}pod/`)) {
    changes.push({ key, value: text.replaceAll('"1000000000"', '"500000000"') });
  }
  const state = JSON.parse((await ledger.record(STATE_KEY)) ?? '{}') as Record<string, unknown>;
  delete state['projection'];
  await ledger.writeRecords([...changes, { key: STATE_KEY, value: JSON.stringify(state) }]);
  const rounds = new HeardRounds();
  await adoptJournal(ledger, observation, { logger: createMemoryLogger(), clock, rounds });
  const spans = observation.pods.find(view)?.spans ?? [];
  const cores = [spans[0], spans.at(-1)].map((span) => span?.state.requests.cpu);
  expect(cores).toEqual([500_000_000n, 1_000_000_000n]);
  expect([...observation.pods.late()]).toEqual([]);
});

test('a replica goes on from its own watch where the tenant clusters of the journal cannot be read, and bills nothing late', async () => {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const meter = await startProcess({ ledger, clock, objects: { pods: [running] } });
  meter.discover([cluster('a')]);
  await pass(clock, 200);
  await meter.kill();
  await ledger.writeRecords([{ key: TENANT_CLUSTERS_KEY, value: '[]' }]);
  const observation = standingBy();
  const logger = createMemoryLogger();
  const rounds = new HeardRounds();
  expect(await adoptJournal(ledger, observation, { logger, clock, rounds })).toBeUndefined();
  expect(logger.lines.join()).toContain(
    'cannot read the tenant clusters: journal/tenant-clusters: "[]"',
  );
  expect([observation.pods.size, [...observation.pods.late()]]).toEqual([0, []]);
  expect(observation.pods.drain().removed).toEqual([projectPod(running)?.uid]);
});
