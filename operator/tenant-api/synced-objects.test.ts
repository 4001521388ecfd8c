import { describe, expect, test } from 'vitest';
import { createSyncedObjects, syncedName } from './synced-objects.ts';
import { tenantCluster } from './testing/tenant-clusters.ts';

const a = tenantCluster('a');
const claim = { uid: 'u1', namespace: 'ml', name: 'data' };
const long = {
  uid: 'u2',
  namespace: 'machine-learning',
  name: 'a-claim-with-quite-a-long-name-of-its-own',
};

/** The host cluster with these objects in the namespace of `a`. */
function hostWith(names: Set<string>, managedBy = 'a') {
  return {
    find: (namespace: string, name: string) =>
      namespace === a.namespace && names.has(name)
        ? { uid: `host-${name}`, namespace, name, labels: { managedBy } }
        : undefined,
  };
}

describe('an object that the syncer has put on the host', () => {
  test('is found by the name that it has there, however long its own is', () => {
    expect(syncedName(claim, a)).toBe('data-x-ml-x-a');
    const name = syncedName(long, a);
    expect(name).toMatch(/^a-claim-with-quite-a-long-name-of-its-own-x-machine--[0-9a-f]{10}$/);
    expect(name.length).toBe(63);
    expect(createSyncedObjects(hostWith(new Set([name])), () => a)(long)).toBe(true);
  });

  test('stays what it is when the host’s copy goes first', () => {
    const names = new Set(['data-x-ml-x-a']);
    const isSynced = createSyncedObjects(hostWith(names), () => a);
    expect(isSynced(claim)).toBe(true);
    names.clear();
    expect(isSynced(claim)).toBe(true);
    expect(isSynced({ ...claim, uid: 'another' })).toBe(false);
  });

  test('is no object that only has such a name', () => {
    const names = new Set(['data-x-ml-x-a']);
    expect(createSyncedObjects(hostWith(names, 'b'), () => a)(claim)).toBe(false);
    const external = tenantCluster('a', { source: 'external' });
    expect(createSyncedObjects(hostWith(names), () => external)(claim)).toBe(false);
    expect(createSyncedObjects(hostWith(names), () => undefined)(claim)).toBe(false);
  });
});
