import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test, vi } from 'vitest';
import { systemClock } from '../telemetry/system-clock.ts';
import { createSource } from './namespaced-source.ts';
import { createCapturingLogger } from './testing/capturing-logger.ts';
import { projectTestPod, type TestPod } from './testing/reflector-rig.ts';

setFlagsFromString('--expose-gc');
const collect: unknown = runInNewContext('gc');

const PODS = 100;

/**
 * A watch that resumed with pods, and weak references that show whether they are still in memory.
 */
function resumed(namespaces: readonly string[], signal: AbortSignal) {
  const objects: readonly TestPod[] = Array.from({ length: PODS }, (_, index) => ({
    uid: `uid-${index}`,
    namespace: 'a',
    name: `pod-${index}`,
    phase: 'Running',
  }));
  const pods = objects.map((object) => new WeakRef(object));
  const source = createSource<TestPod>({
    connection: {
      request: async () => ({
        kind: 'ok',
        status: 200,
        body: { kind: 'PodList', metadata: { resourceVersion: '2' }, items: [] },
      }),
      stream: async () => new Promise<never>(() => undefined),
    },
    resource: { group: '', version: 'v1', plural: 'pods' },
    project: projectTestPod,
    handlers: [],
    clock: systemClock,
    random: Math.random,
    logger: createCapturingLogger(),
    namespaces,
    resume: { objects, knownAt: 1 },
  });
  void source.run(signal);
  return { pods, source };
}

test.each([[[]], [['a']]])(
  'pods that are gone since a restart do not stay in memory (namespaces %j)',
  async (namespaces) => {
    const stop = new AbortController();
    const { pods, source } = resumed(namespaces, stop.signal);
    expect(source.size).toBe(PODS);
    await vi.waitFor(() => expect(source.size).toBe(0));
    await vi.waitFor(() => {
      if (typeof collect !== 'function') throw new Error('the heap cannot be collected');
      collect();
      expect(pods.filter((pod) => pod.deref() !== undefined)).toHaveLength(0);
    });
    stop.abort();
  },
);
