import * as fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { cluster } from '../meters/testing/objects.ts';
import { START } from '../meters/testing/world.ts';
import { encodeJson } from '../timelines/journal-text.ts';
import { TenantClusterTimelines } from '../timelines/tenant-cluster-timeline.ts';
import { JOURNAL_VERSION } from './journal.ts';
import { TenantClusterTexts } from './tenant-cluster-texts.ts';

const anyPass = fc.uniqueArray(
  fc.record({
    name: fc.constantFrom('a', 'b', 'c', 'd'),
    tenant: fc.constantFrom('acme', 'Zoë "the second"', 'initech'),
    synced: fc.subarray(['team-1', 'team-2']),
    maxPrivateNodes: fc.integer({ min: 1, max: 3 }),
  }),
  { selector: ({ name }) => name },
);

test('a text of tenant clusters from cached parts differs from one that is encoded again', () => {
  fc.assert(
    fc.property(fc.array(anyPass, { maxLength: 8 }), fc.nat(40), (passes, early) => {
      const timelines = new TenantClusterTimelines();
      const texts = new TenantClusterTexts();
      for (const [number, drawn] of passes.entries()) {
        const at = START + number * 1000;
        const found = drawn.map(({ name, tenant, synced, maxPrivateNodes }) => {
          const createdAt = at - 500;
          const syncedNamespaces = synced.map((each) => ({ name: `${each}-${name}`, createdAt }));
          return cluster(name, { maxPrivateNodes }, { tenant, syncedNamespaces });
        });
        timelines.observe(found, at);
        const steps = texts.make(timelines.snapshot());
        for (let step = 0; step < early; step += 1) steps.next();
        if (number % 3 === 2) timelines.release(() => false, at);
        const clusters = timelines.snapshot();
        expect(texts.of(clusters)).toBe(encodeJson({ v: JOURNAL_VERSION, clusters }));
      }
    }),
  );
});

test('one tenant cluster that comes has all others written out once more, in one piece', () => {
  const texts = new TenantClusterTexts();
  const timelines = new TenantClusterTimelines();
  const all = Array.from({ length: 100 }, (_, number) => cluster(`${number}`));
  timelines.observe(all, START);
  expect([...texts.make(timelines.snapshot())]).toHaveLength(100);
  timelines.observe([...all, cluster('new')], START + 1000);
  const stringify = vi.spyOn(JSON, 'stringify');
  const text = texts.of(timelines.snapshot());
  const values = stringify.mock.calls.map(([value]) => value as TenantCluster);
  stringify.mockRestore();
  const written = values.filter((value) => 'metering' in value);
  expect(written.map(({ name }) => name)).toEqual(['new']);
  expect(text).toContain('"name":"99"');
});
