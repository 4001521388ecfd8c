import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { cluster } from '../metering/testing/objects.ts';
import { HeardRounds, type HeardRound } from './heard-rounds.ts';
import { createTenantClusterTimelines } from './tenant-cluster-timeline.ts';

const ROUND_MS = 5_000;

/** What is found in one round: each of three tenant clusters may be there, for one of two customers. */
const found = fc.tuple(...['a', 'b', 'c'].map((name) => fc.constantFrom('', `${name}-1`, 'other')));

/** One that comes again is another one. */
function roundsOf(all: readonly (readonly string[])[]): readonly HeardRound[] {
  const since = [0, 0, 0];
  return all.map((customers, index) => {
    const at = (index + 1) * ROUND_MS;
    const clusters = ['a', 'b', 'c'].flatMap((name, number) => {
      const tenant = customers[number] ?? '';
      if ((all[index - 1]?.[number] ?? '') === '') since[number] = at;
      const createdAt = since[number] ?? 0;
      return tenant === '' ? [] : [{ ...cluster(name, {}, { createdAt }), tenant }];
    });
    return { clusters, at };
  });
}

test('whoever takes over knows of every tenant cluster what one process would, wherever the journal ends', () => {
  fc.assert(
    fc.property(fc.array(found, { minLength: 1, maxLength: 12 }), fc.nat(), (all, cut) => {
      const rounds = roundsOf(all);
      const [one, meter, replica] = [
        createTenantClusterTimelines(),
        createTenantClusterTimelines(),
        createTenantClusterTimelines(),
      ];
      const heard = new HeardRounds();
      const written = 1 + (cut % rounds.length);
      for (const { clusters, at } of rounds) {
        one.observe(clusters, at);
        replica.observe(clusters, at);
        heard.add(clusters, at);
      }
      for (const { clusters, at } of rounds.slice(0, written)) meter.observe(clusters, at);
      heard.forget(ROUND_MS);
      const snapshot = JSON.parse(JSON.stringify(meter.snapshot()));
      replica.restore(snapshot, meter.observedAt);
      for (const { clusters, at } of heard.since(meter.observedAt, snapshot)) {
        replica.observe(clusters, at);
      }
      const ids = ['a', 'b', 'c'].map((name) => cluster(name).id);
      const statesIn = (known: typeof one) => ids.map((id) => known.statesOf(id, 0, Infinity));
      expect(statesIn(replica)).toEqual(statesIn(one));
      expect(new Set(replica.leaving)).toEqual(new Set(one.leaving));
      // In which order they are told says nothing.
      expect(new Set(replica.current)).toEqual(new Set(one.current));
    }),
  );
});

test('a thousand tenant clusters that stay as they are are kept once, however often they are looked at', () => {
  const look = (): readonly TenantCluster[] =>
    Array.from({ length: 1_000 }, (_, index) => cluster(`c${index}`, {}, { createdAt: 0 }));
  const heard = new HeardRounds();
  for (const at of [1, 2, 3]) heard.add(look(), at);
  expect(new Set(heard.after(0).flatMap(({ clusters }) => clusters)).size).toBe(1_000);
});
