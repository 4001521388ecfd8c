import type {
  ApiResource,
  Projected,
  Projection,
  RawObject,
  Source,
  SourceState,
} from '../../kubernetes/source.ts';
import { seeFixture } from '../../kubernetes/testing/fixtures.ts';

/** A source whose content and health a test sets. */
export interface FakeSource<T extends Projected> extends Source<T> {
  put(...objects: readonly RawObject[]): void;
  remove(namespace: string, name: string): void;
  become(state: SourceState, reason?: string): void;
}

export function createFakeSource<T extends Projected>(
  resource: ApiResource,
  project: Projection<T>,
): FakeSource<T> {
  const present = new Map<string, T>();
  let state: SourceState = 'synced';
  let reason: string | undefined;
  return {
    resource,
    put: (...objects) => {
      for (const object of objects) {
        const projected = project(seeFixture(resource.plural, object));
        if (projected !== undefined)
          present.set(`${projected.namespace}/${projected.name}`, projected);
      }
    },
    remove: (namespace, name) => void present.delete(`${namespace}/${name}`),
    become: (next, why) => {
      state = next;
      reason = why;
    },
    run: () => Promise.resolve(),
    ready: () => Promise.resolve(),
    health: () => ({
      state,
      since: 0,
      freshAt: 0,
      reason,
    }),
    get size() {
      return present.size;
    },
    values: () => present.values(),
    find: (namespace, name) => present.get(`${namespace}/${name}`),
    resourceVersion: () => '1',
  };
}
