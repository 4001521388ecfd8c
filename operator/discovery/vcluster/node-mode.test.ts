import { expect, test } from 'vitest';
import { discoverHost } from '../testing/host.ts';
import { type InstanceOptions, instance, namespaceObject, workload } from '../testing/objects.ts';

function modeOf(
  options: InstanceOptions | undefined,
  annotations: Readonly<Record<string, string>> = {},
) {
  const [cluster] = discoverHost({
    workloads: [workload('tenant-a', 'a')],
    namespaces: [namespaceObject('tenant-a', { annotations })],
    instances:
      options === undefined
        ? []
        : [instance('p-x', 'a', { hostNamespace: 'tenant-a', ...options })],
  }).clusters;
  return cluster?.nodeMode;
}

test('a fleet of shared tenant clusters is listed as failing for want of a kubeconfig', () => {
  expect(modeOf({ values: 'sync: {}\nprivateNodes:\n  enabled: false\n' })).toBe('shared');
  expect(modeOf({ values: 'sync: {}' })).toBe('shared');
  expect(modeOf(undefined, { 'meterfeed.io/node-mode': 'shared' })).toBe('shared');
});

test('a tenant cluster with nodes of its own passes for a shared one', () => {
  expect(modeOf({ values: 'privateNodes:\n  enabled: true' })).toBe('private');
  expect(modeOf({ values: 'privateNodes: {enabled: true}' })).toBe('private');
  expect(modeOf({ values: 'sync: {}' }, { 'meterfeed.io/node-mode': 'private' })).toBe('private');
});

test.each([
  ['nobody says anything', undefined],
  ['the platform has rendered nothing', {}],
  ['the platform says something unreadable', { values: 'a: &x [\n' }],
])('what nobody knows is guessed: %s', (_, options) => {
  expect(modeOf(options)).toBeUndefined();
});

test('a misspelt mode is trusted', () => {
  expect(modeOf(undefined, { 'meterfeed.io/node-mode': 'Shared' })).toBeUndefined();
});
