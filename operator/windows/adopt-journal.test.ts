import { expect, test } from 'vitest';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { cluster, NODE_SETTINGS } from '../metering/testing/objects.ts';
import { START } from '../metering/testing/times.ts';
import { HeardRounds } from '../observation/heard-rounds.ts';
import { createObservation } from '../observation/observation.ts';
import { createMemoryLogger } from '../telemetry/testing/memory-logger.ts';
import { adoptJournal } from './journal.ts';
import { clockAt, pass, startProcess } from './testing/harness.ts';

const at = (seconds: number): number => START + seconds * 1_000;
const born = (name: string, seconds: number) => cluster(name, {}, { createdAt: at(seconds) });

/** What a look found that came at that second, or every ten seconds without change since. */
type Looks = Readonly<Record<number, readonly TenantCluster[]>>;

/**
 * A meter and a replica look at the tenant clusters. The meter is killed at second 120, and has closed the window that ended at 60 by second 90; the replica takes
 * over.
 */
async function takeOver(meters: Looks, replicas: Looks) {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const meter = await startProcess({ ledger, clock });
  const observation = createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
    standsBy: true,
  });
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

test('a customer that changed after the last look of the journal has what came since', async () => {
  const a = born('a', -100);
  const moved = { ...a, tenant: 'other' };
  const rounds = { [-20]: [a], 110: [moved] };
  const known = await takeOver(rounds, rounds);
  const states = known.statesOf(a.id, at(0), at(200));
  expect(states.map(({ state }) => state.tenant)).toEqual([a.tenant, 'other']);
  expect(times(states).at(-1)).toEqual([110, Infinity]);
});
