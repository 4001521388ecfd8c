import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createDiscoveryRig } from './testing/discovery-rig.ts';

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'external-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

/** Puts a file in place as the kubelet does: a new directory, and one link that changes to it. */
async function mount(version: string, content: string): Promise<void> {
  await mkdir(join(directory, version));
  await writeFile(join(directory, version, 'clusters.yaml'), content);
  await symlink(version, join(directory, '..data.new'));
  await rename(join(directory, '..data.new'), join(directory, '..data'));
}

const rigOf = () =>
  createDiscoveryRig({ TENANT_CLUSTERS_FILE: join(directory, '..data', 'clusters.yaml') });

const EDGE = '- {name: edge, kubeconfig: /k/edge, tenant: acme, project: vision}\n';
const LAB = '- {name: lab, kubeconfig: /k/lab}\n';

test('external tenant clusters stand beside those of the host, with ids of their own', async () => {
  await mount('1', EDGE + LAB);
  const rig = rigOf();
  rig.add('tenant-a', 'a');
  await rig.discovery.runPass();
  expect(
    rig.discovery.clusters().map(({ id, source, tenant, displayName, kubeconfigFile }) => ({
      id,
      source,
      tenant,
      displayName,
      kubeconfigFile,
    })),
  ).toEqual([
    {
      id: 'external-edge',
      source: 'external',
      tenant: 'acme',
      displayName: 'Tenant cluster edge',
      kubeconfigFile: '/k/edge',
    },
    {
      id: 'external-lab',
      source: 'external',
      tenant: 'external-lab',
      displayName: 'Tenant cluster lab',
      kubeconfigFile: '/k/lab',
    },
    {
      id: 'tenant-tenant-a-a',
      source: 'workload',
      tenant: 'tenant-tenant-a-a',
      displayName: 'Tenant cluster tenant-a-a',
      kubeconfigFile: undefined,
    },
  ]);
});

test('a broken file, or none, offboards whom the last good one listed', async () => {
  await mount('1', EDGE + LAB);
  const rig = rigOf();
  await rig.discovery.runPass();
  await mount('2', '- {name: edge}');
  await rig.discovery.runPass();
  expect(rig.discovery.clusters().map(({ id }) => id)).toEqual(['external-edge', 'external-lab']);
  expect(rig.discovery.problems()).toEqual([
    expect.stringMatching(
      /^TENANT_CLUSTERS_FILE ".*": line 1: kubeconfig: missing; it is required$/,
    ),
  ]);
  await rm(join(directory, '..data'));
  const restarted = rig.restart();
  expect((await restarted.runPass()).kind).toBe('found');
  expect(restarted.clusters().map(({ id }) => id)).toEqual(['external-edge', 'external-lab']);
  expect(restarted.problems()[0]).toContain(
    'cannot be read (ENOENT); check the path and its mount',
  );
});

test('a list that changes under its link is not noticed', async () => {
  await mount('1', EDGE);
  const rig = rigOf();
  await rig.discovery.runPass();
  const [before] = rig.discovery.clusters();
  await rig.clock.advance(60_000);
  await mount('2', LAB + EDGE.replace('acme', 'initech'));
  await rig.discovery.runPass();
  const [edge, lab] = rig.discovery.clusters();
  expect(edge?.tenant).toBe('initech');
  expect(edge?.createdAt).toBe(before?.createdAt);
  expect(lab?.createdAt).toBe(rig.clock.now());
  expect(rig.discovery.problems()).toEqual([]);
});

test('a removed entry is offboarded like any tenant cluster, and not before its grace', async () => {
  await mount('1', EDGE);
  const rig = rigOf();
  await rig.discovery.runPass();
  await mount('2', '[]');
  await rig.discovery.runPass();
  expect(rig.discovery.offboarded()).toEqual([]);
  // The only tenant is all tenants, so its grace counts twice.
  for (let hours = 0; hours < 3; hours += 1) {
    await rig.clock.advance(3_600_000);
    await rig.discovery.runPass();
  }
  expect(rig.discovery.offboarded().map(({ tenant }) => tenant.id)).toEqual(['acme']);
});
