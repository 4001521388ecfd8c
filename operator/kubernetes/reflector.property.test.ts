import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { SourceHandler } from './source.ts';
import { startReflector, type TestPod } from './testing/reflector-rig.ts';
import { type ScriptedApiServer, startScriptedApiServer } from './testing/scripted-api-server.ts';

const NAMES = ['a', 'b', 'c', 'd'];

type Step =
  | { readonly kind: 'put' | 'remove' | 'recreate'; readonly name: string }
  | {
      readonly kind: 'cut' | 'end' | 'compact' | 'garbage' | 'bookmark' | 'breathe';
    }
  | { readonly kind: 'fail'; readonly of: 'list' | 'watch'; readonly code: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constantFrom('put', 'remove', 'recreate'),
      name: fc.constantFrom(...NAMES),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constantFrom('cut', 'end', 'compact', 'garbage', 'bookmark', 'breathe', 'breathe'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('fail'),
      of: fc.constantFrom('list', 'watch'),
      code: fc.constantFrom(410, 429, 500, 503),
    }),
  },
);

async function perform(server: ScriptedApiServer, alive: Set<string>, step: Step, slice: number) {
  switch (step.kind) {
    case 'put':
    case 'remove':
    case 'recreate':
      if (step.kind !== 'put' && alive.delete(step.name)) server.remove('ns', step.name);
      if (step.kind === 'remove') return;
      server.put({ namespace: 'ns', name: step.name, status: { phase: String(slice) } });
      alive.add(step.name);
      return;
    case 'cut':
      return server.cutWatches();
    case 'end':
      return server.endWatches();
    case 'compact':
      return server.compact();
    case 'garbage':
      return server.write('{"type":"ADDED"}\n');
    case 'bookmark':
      return server.bookmark();
    case 'fail':
      return server.next(step.of, { kind: 'answer', code: step.code });
    default:
      await new Promise((resolve) => {
        setTimeout(resolve, 2);
      });
  }
}

/**
 * Checks each object's changes: created once, each change follows the previous version, deleted
 * once.
 */
function createWitness(): SourceHandler<TestPod> & { readonly faults: readonly string[] } {
  const alive = new Map<string, TestPod>();
  const ended = new Set<string>();
  const faults: string[] = [];
  return {
    faults,
    upserted: (next, previous) => {
      if (ended.has(next.uid)) faults.push(`${next.uid} came back`);
      if (alive.get(next.uid) !== previous) faults.push(`${next.uid} changed from something else`);
      alive.set(next.uid, next);
    },
    deleted: (last) => {
      if (!alive.delete(last.uid)) faults.push(`${last.uid} ended without being there`);
      ended.add(last.uid);
    },
  };
}

test('after any mishaps, every deletion is reported once and the view is correct', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const server = await startScriptedApiServer();
      const witness = createWitness();
      const rig = await startReflector(server, {
        handlers: [witness],
        timings: { comparison: 3 },
      });
      const alive = new Set<string>();
      for (const [slice, each] of steps.entries()) await perform(server, alive, each, slice);
      server.put({ namespace: 'ns', name: 'end' });
      const expected = [...alive, 'end'].toSorted();
      await rig.handler.until(
        () =>
          JSON.stringify([...rig.source.values()].map(({ name }) => name).toSorted()) ===
          JSON.stringify(expected),
      );
      expect(witness.faults).toEqual([]);
      expect(await rig.metric('cache_corrections_total')).toBe(0);
      await rig.stop();
      await server.until(() => server.openSockets === 0);
      await server.close();
    }),
    { numRuns: 100 },
  );
});
