import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import { effectiveRequests } from './effective-requests.ts';
import { API_OF_HOST, createSharedValues } from './shared-values.ts';
import { shareLabels } from './object-labels.ts';
import { insideTenant } from './inside-tenant.ts';
import { projectPod } from './pod.ts';
import { projectResourceSlice, sameSlice } from './resource-slice.ts';

/** Texts with every separator, and with characters that JSON escapes. */
const names = fc.string({
  unit: fc.constantFrom(
    'a',
    '=',
    ',',
    ' ',
    '/',
    '\0',
    '"',
    '\\',
    '|',
    ':',
    ';',
    '1',
    '\n',
    '[',
    ']',
  ),
  maxLength: 12,
});
const querying = (requests: Readonly<Record<string, string>>): RawObject => ({
  containers: [{ name: 'c', resources: { requests } }],
});
const pod = (requests: Readonly<Record<string, string>>): RawObject => ({
  metadata: { uid: 'p', name: 'p', namespace: 'n' },
  spec: querying(requests),
});

describe("names that contain a key's separators", () => {
  test('a resource of a tenant does not take the GPUs from the pod of another', () => {
    projectPod(pod({ 'nvidia.com/gpu=8,rdma/ib': '1' }));
    const honest = projectPod(pod({ 'nvidia.com/gpu': '8', 'rdma/ib': '1' }));
    expect(honest?.requests.extended.get('nvidia.com/gpu')).toBe(8);
  });

  test('a name that spells out the requests of another pod stands for itself', () => {
    const separators = fc.constantFrom('=', ',', ' ', '/', '\0', '":"', '","', '|', ':', ';', '');
    const count = fc.integer({ min: 1, max: 9 });
    fc.assert(
      fc.property(separators, separators, count, count, (between, after, gpus, links) => {
        projectPod(pod({ [`x/gpu${between}${gpus}${after}x/link`]: String(links) }));
        const honest = projectPod(pod({ 'x/gpu': String(gpus), 'x/link': String(links) }));
        expect([...(honest?.requests.extended ?? [])]).toEqual([
          ['x/gpu', gpus],
          ['x/link', links],
        ]);
      }),
    );
  });

  test('requests are those of their own pod', () => {
    const amounts = fc.dictionary(
      names.map((name) => `x/${name}`),
      fc.integer({ min: 1, max: 12 }),
      { maxKeys: 4 },
    );
    fc.assert(
      fc.property(fc.array(amounts, { maxLength: 5 }), (pods) => {
        for (const wanted of pods) {
          const texts = Object.entries(wanted).map(([name, count]) => [name, String(count)]);
          const { extended } = effectiveRequests(querying(Object.fromEntries(texts)), {});
          expect(Object.fromEntries(extended)).toEqual(Object.fromEntries(Object.entries(wanted)));
        }
      }),
    );
  });

  test('labels are those of their own object', () => {
    const some = fc.option(names, { nil: undefined });
    const labels = fc.record({
      managedBy: some,
      virtualNamespace: some,
      app: some,
      release: some,
    });
    fc.assert(
      fc.property(fc.array(labels, { maxLength: 5 }), (all) => {
        for (const wanted of all) expect(shareLabels(wanted)).toEqual(wanted);
      }),
    );
  });

  test('devices are those of their own slice, and different ones are never the same', () => {
    const device = fc.record({ name: names, productName: names, uuid: names, size: names });
    const sliceOf = ({ name, productName, uuid, size }: Record<string, string>): RawObject => ({
      metadata: { uid: 's', name: 's' },
      spec: {
        driver: 'gpu.nvidia.com',
        pool: { name: 'pool' },
        devices: [
          {
            name: `d${name}`,
            attributes: {
              productName: { string: `p${productName}` },
              uuid: { string: `u${uuid}` },
            },
            capacity: { [`c${size}`]: { value: '1' } },
            allowMultipleAllocations: true,
          },
        ],
      },
    });
    fc.assert(
      fc.property(device, device, (a, b) => {
        const [left, right] = [projectResourceSlice(sliceOf(a)), projectResourceSlice(sliceOf(b))];
        if (left === undefined || right === undefined) throw new Error('no slice');
        const [published] = right.devices.values();
        expect(published?.name).toBe(`d${b.name}`);
        expect(published?.product).toBe(`p${b.productName}`);
        expect([...(published?.capacity?.keys() ?? [])]).toEqual([`c${b.size}`]);
        const equal = JSON.stringify(Object.entries(a)) === JSON.stringify(Object.entries(b));
        expect(sameSlice(left, right)).toBe(equal);
      }),
    );
  });
});

describe('the pools of two APIs', () => {
  test('have separate values', () => {
    const inTenant = insideTenant(projectPod);
    const requests = { cpu: '1', 'x/y': '3' };
    const [host, again] = [projectPod(pod(requests)), projectPod(pod(requests))];
    expect(again?.requests).toBe(host?.requests);
    const [tenant, tenantAgain] = [inTenant(pod(requests)), inTenant(pod(requests))];
    expect(tenant?.requests).toEqual(host?.requests);
    expect(tenant?.requests).not.toBe(host?.requests);
    expect(tenantAgain?.requests).toBe(tenant?.requests);
  });

  test('values of pods that came and went are freed', async () => {
    const shared = createSharedValues<object>();
    const stored = shared(API_OF_HOST, ['kept'], () => ({}));
    const gone = Array.from(
      { length: 3_000 },
      (_, index) => new WeakRef(shared(API_OF_HOST, [index], () => ({}))),
    );
    setFlagsFromString('--expose-gc');
    // JavaScript keeps a weakly referenced value that was read until the current job ends.
    await setImmediate();
    runInNewContext('gc')();
    expect(gone.filter((value) => value.deref() !== undefined)).toEqual([]);
    expect(shared(API_OF_HOST, ['kept'], () => ({}))).toBe(stored);
    const again = shared(API_OF_HOST, [1], () => ({}));
    expect(shared(API_OF_HOST, [1], () => ({}))).toBe(again);
  });
});
