import { expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import type { RawObject } from '../kubernetes/source.ts';
import { projectLoadBalancer } from '../observation/load-balancer.ts';
import { projectNode } from '../observation/node.ts';
import { projectPod } from '../observation/pod.ts';
import { projectVolumeClaim } from '../observation/volume-claim.ts';
import { projectWorkload } from '../observation/workload.ts';
import { type FixtureKind, recordObjects } from './testing/recorded-objects.ts';
import { createFixtureStore } from './testing/stored-fixtures.ts';

/**
 * The case tables run here once more, and every object that they meter is then given to a real API
 * server: what metering reads of it must be the same before and after, so that no case rests on an
 * object that could not exist. Claims and slices have `claims.apiserver.test.ts`.
 */
const recorded = new Map<string, { readonly kind: FixtureKind; readonly object: RawObject }>();
recordObjects((kind, object) => {
  const text = JSON.stringify([kind, object], (_key, part: unknown) =>
    typeof part === 'bigint' ? String(part) : part,
  );
  recorded.set(text, { kind, object });
});

await import('./gpu-hours.test.ts');
await import('./gpu-downtime.test.ts');
await import('./requests.test.ts');
await import('./usage.test.ts');
await import('./held-resources.test.ts');
await import('./whole-nodes.test.ts');
await import('./events.test.ts');
await import('./claim-use.test.ts');

const api = useTestCluster();

const PROJECTIONS = {
  pods: projectPod,
  nodes: projectNode,
  persistentvolumeclaims: projectVolumeClaim,
  services: projectLoadBalancer,
  statefulsets: projectWorkload,
} as const;

type Kind = keyof typeof PROJECTIONS;

/** What metering reads of an object, but for what every API server gives an object of its own. */
function readOf(kind: Kind, object: RawObject): object | undefined {
  const view = PROJECTIONS[kind](object);
  if (view === undefined) return undefined;
  const { uid: _uid, name: _name, namespace: _namespace, createdAt: _createdAt, ...read } = view;
  return read;
}

for (const kind of Object.keys(PROJECTIONS) as Kind[]) {
  test(`the ${kind} of the case tables read the same after a real API server had them`, async () => {
    const objects = [...recorded.values()].filter((one) => one.kind === kind);
    expect(objects.length).toBeGreaterThan(3);
    const store = await createFixtureStore(api);
    const failures: string[] = [];
    for (const { object } of objects) {
      const stored = await store(kind, object).catch((error: unknown) => String(error));
      if (typeof stored === 'string') {
        failures.push(`${stored.slice(0, 400)} ${JSON.stringify(object).slice(0, 300)}`);
        continue;
      }
      expect(readOf(kind, stored), JSON.stringify(object)).toEqual(readOf(kind, object));
    }
    expect(failures).toEqual([]);
  });
}
