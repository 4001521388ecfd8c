import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import type { Environment } from '../settings/load-environment.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { statusFailure } from '../kubernetes/outcome.ts';
import { createAccessRig } from './testing/access-rig.ts';
import {
  base64,
  kubeconfigText,
  testCertificates,
  tokenEnding,
  withImpossibleEnd,
} from './testing/kubeconfigs.ts';
import { tenantCluster } from './testing/tenant-clusters.ts';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

function rigOf(environment: Environment, ...clusters: readonly TenantCluster[]) {
  const rig = createAccessRig(environment, ...clusters);
  closers.push(rig.stop);
  return rig;
}

const PLACE = 'tenant-a/svc-kubeconfig';
const MISSING = 'tenant-tenant-a-a: no kubeconfig: Secret "tenant-a/svc-kubeconfig": missing';

describe('a tenant cluster’s nodes are never unbilled without a failure that names it', () => {
  test('P04: its kubeconfig is missing', async () => {
    const rig = rigOf({}, tenantCluster());
    await rig.settle();
    expect(rig.failures()).toEqual([MISSING]);
    expect(rig.access.list()).toEqual([]);
    expect(rig.access.missing()[0]?.since).toBe(rig.clock.now());
  });

  test('its kubeconfig is forbidden', async () => {
    const rig = rigOf({}, tenantCluster());
    rig.put(PLACE, statusFailure(403, {}));
    await rig.pass();
    expect(rig.failures()).toEqual([
      'tenant-tenant-a-a: Secret "tenant-a/svc-kubeconfig": forbidden; allow the operator to get it',
    ]);
  });

  test('since when stays, while the reason changes', async () => {
    const rig = rigOf({}, tenantCluster());
    await rig.settle();
    const since = rig.clock.now();
    rig.put(PLACE, 'nonsense');
    await rig.pass();
    expect(rig.access.missing()).toEqual([
      {
        tenantCluster: 'tenant-tenant-a-a',
        kind: 'refused',
        reason: 'kubeconfig refused: Secret "tenant-a/svc-kubeconfig": not a kubeconfig',
        since,
      },
    ]);
  });

  test('its Secret has another name than the usual one', async () => {
    const rig = rigOf({ TENANT_KUBECONFIG_SECRET: 'reader' }, tenantCluster());
    rig.put('tenant-a/reader', kubeconfigText());
    await rig.pass();
    expect(rig.access.list()).toHaveLength(1);
    expect(new Set(rig.requests)).toEqual(new Set(['tenant-a/reader']));
  });

  test('a Secret without any of the keys', async () => {
    const rig = rigOf({}, tenantCluster());
    rig.put(PLACE, 'x', 'something');
    await rig.pass();
    expect(rig.failures()[0]).toContain('none of the keys config, kubeconfig, value');
  });
});

describe('a Secret that nobody foresaw', () => {
  test('what reading it throws is a failure of that tenant cluster, which is looked at again', async () => {
    const rig = rigOf({}, tenantCluster(), tenantCluster('b'));
    const body = {
      get data(): never {
        throw new RangeError('hunter2');
      },
    };
    rig.put(PLACE, { kind: 'ok', status: 200, body });
    rig.put('tenant-b/svc-kubeconfig', kubeconfigText());
    await rig.pass();
    expect(rig.access.list()).toHaveLength(1);
    expect(rig.failures()).toEqual([
      'tenant-tenant-a-a: its kubeconfig cannot be read: unexpected RangeError; report it as a defect',
    ]);
    expect(rig.logger.lines.join()).not.toContain('hunter2');
    rig.put(PLACE, kubeconfigText());
    await rig.pass();
    expect(rig.access.list()).toHaveLength(2);
  });
});

describe('tenant clusters are listed as failing that have no nodes of their own', () => {
  test('shared ones are left out, and followed all the same', async () => {
    const rig = rigOf({}, tenantCluster('a', { nodeMode: 'shared' }));
    await rig.settle();
    expect(rig.failures()).toEqual([]);
    rig.put(PLACE, kubeconfigText());
    await rig.pass();
    expect(rig.access.list()).toHaveLength(1);
  });

  test('P17: TENANT_API=false queries nobody', async () => {
    const rig = rigOf({ TENANT_API: 'false' }, tenantCluster());
    rig.discovery.find(tenantCluster(), tenantCluster('b'));
    await rig.pass();
    expect(rig.requests).toEqual([]);
    expect(rig.failures()).toEqual([]);
  });

  test('a tenant cluster that is not metered is not queried', async () => {
    const rig = rigOf({}, tenantCluster('a', { excluded: true }));
    await rig.settle();
    expect(rig.requests).toEqual([]);
  });
});

describe('P06: an admin’s credential is taken that nobody allowed', () => {
  test('without TENANT_ADMIN_FALLBACK it is not even read', async () => {
    const rig = rigOf({}, tenantCluster());
    rig.put('tenant-a/vc-a', kubeconfigText());
    await rig.pass();
    expect(new Set(rig.requests)).toEqual(new Set([PLACE]));
    expect(rig.failures()).toEqual([MISSING]);
  });

  test('with it, it stands in for a missing Secret', async () => {
    const rig = rigOf({ TENANT_ADMIN_FALLBACK: 'true' }, tenantCluster());
    rig.put('tenant-a/vc-a', kubeconfigText());
    await rig.pass();
    expect(rig.access.list()).toHaveLength(1);
  });

  test.each([
    ['a forbidden one', statusFailure(403, {}), tenantCluster()],
    ['a refused one', 'nonsense', tenantCluster()],
    [
      'a shared tenant cluster’s',
      statusFailure(404, {}),
      tenantCluster('a', { nodeMode: 'shared' }),
    ],
  ])('it does not stand in for %s', async (_, own, cluster) => {
    const rig = rigOf({ TENANT_ADMIN_FALLBACK: 'true' }, cluster);
    rig.put(PLACE, own);
    rig.put('tenant-a/vc-a', kubeconfigText());
    await rig.pass();
    expect(rig.access.list()).toEqual([]);
  });
});

describe('a kubeconfig changes and the operator goes on with the old one', () => {
  test('a new Secret is a new connection, and the old one is closed', async () => {
    const rig = rigOf({}, tenantCluster());
    rig.put(PLACE, kubeconfigText());
    await rig.pass();
    const [before] = rig.access.list();
    await rig.pass();
    expect(rig.access.list()[0]?.connection).toBe(before?.connection);
    rig.put(PLACE, kubeconfigText({ user: { token: 'next-token' } }));
    await rig.pass();
    const [after] = rig.access.list();
    expect(after?.connection).not.toBe(before?.connection);
    expect(await before?.connection.request('/x')).toMatchObject({ kind: 'network' });
    expect(after?.connection.kubeConfig.getCurrentUser()?.token).toBe('next-token');
  });

  test('a withdrawn Secret ends the connection; an API server in trouble does not', async () => {
    const rig = rigOf({}, tenantCluster());
    rig.put(PLACE, kubeconfigText());
    await rig.pass();
    for (const trouble of [statusFailure(500, {}), statusFailure(403, {})]) {
      rig.put(PLACE, trouble);
      await rig.pass();
      expect(rig.access.list()).toHaveLength(1);
      expect(rig.failures()).toEqual([]);
    }
    rig.remove(PLACE);
    await rig.pass();
    expect(rig.access.list()).toEqual([]);
    expect(rig.failures()).toEqual([MISSING]);
  });

  test('an unreachable server has the Secret looked at again within half a minute', async () => {
    const rig = rigOf({ 'spec.tenantAPI.allowedHosts': '127.0.0.1' }, tenantCluster());
    rig.put(PLACE, kubeconfigText({ cluster: { server: 'https://127.0.0.1:1' } }));
    await rig.pass();
    const polls = rig.requests.length;
    expect(await rig.access.list()[0]?.connection.request('/api/v1/nodes')).toMatchObject({
      kind: 'network',
    });
    await rig.pass(30_000);
    expect(rig.requests.length).toBe(polls + 1);
  });

  test('a token that has ended is refused, and one that will end is looked at then', async () => {
    const rig = rigOf({}, tenantCluster());
    const tokenUntil = (ms: number) =>
      ['e30', Buffer.from(JSON.stringify({ exp: ms / 1000 })).toString('base64url'), 'x'].join('.');
    const soon = rig.clock.now() + 60_000;
    rig.put(PLACE, kubeconfigText({ user: { token: tokenUntil(soon) } }));
    await rig.pass(30_000);
    expect(rig.access.list()).toHaveLength(1);
    await rig.pass(31_000);
    expect(rig.failures()[0]).toContain(
      'the credential ended at 2026-01-01T00:01:00.000Z; renew it',
    );
  });

  test('a token that ended before all time costs the tenant cluster its API, and nobody else anything', async () => {
    const rig = rigOf({}, tenantCluster('a'), tenantCluster('b'));
    rig.put(PLACE, kubeconfigText({ user: { token: tokenEnding('-9007199254740991') } }));
    rig.put('tenant-b/svc-kubeconfig', kubeconfigText());
    await rig.pass();
    expect(rig.failures()).toEqual([expect.stringContaining('its end is no date')]);
    expect(rig.access.list().map(({ cluster }) => cluster.name)).toEqual(['b']);
  });

  test('a client certificate without a possible end is not read again and again', async () => {
    const { client } = await testCertificates('localhost');
    const rig = rigOf({}, tenantCluster());
    const user = {
      token: undefined,
      'client-certificate-data': base64(withImpossibleEnd(client.certPem)),
      'client-key-data': base64(client.keyPem),
    };
    rig.put(PLACE, kubeconfigText({ user }));
    await rig.settle();
    expect(rig.requests).toHaveLength(1);
    expect(rig.failures()).toEqual([expect.stringContaining('its end is no date')]);
  });

  test('a token that always ends in a moment is looked at every ten seconds at most', async () => {
    const rig = rigOf({}, tenantCluster());
    for (let second = 0; second < 60; second += 1) {
      const end = rig.clock.now() / 1000 + 2;
      rig.put(PLACE, kubeconfigText({ user: { token: tokenEnding(`${end}`) } }));
      await rig.pass(1_000);
    }
    expect(rig.requests.length).toBeLessThanOrEqual(7);
  });
});

describe('Secrets that may not be watched are fetched by name', () => {
  test('a thousand of them keep the API server busy', async () => {
    const clusters = Array.from({ length: 1_000 }, (_, index) => tenantCluster(`t${index}`));
    const rig = rigOf({}, ...clusters);
    for (const { namespace } of clusters.slice(500)) {
      rig.put(`${namespace}/svc-kubeconfig`, kubeconfigText());
    }
    await rig.settle();
    expect(rig.requests).toHaveLength(1_000);
    const hours = 2;
    await rig.pass(hours * 3_600_000);
    const perTwentySeconds = (rig.requests.length - 1_000) / (hours * 180);
    expect(perTwentySeconds).toBeLessThan(15);
    // Each of them at least once in an hour.
    expect(perTwentySeconds).toBeGreaterThan(1_000 / 180);
  });
});

describe('tenant clusters come and go', () => {
  test('a tenant cluster that goes takes its connection and its failure along', async () => {
    const rig = rigOf({}, tenantCluster(), tenantCluster('b'));
    rig.put(PLACE, kubeconfigText());
    await rig.pass();
    const [api] = rig.access.list();
    expect(rig.failures()).toHaveLength(1);
    rig.discovery.find();
    await rig.settle();
    expect(rig.access.list()).toEqual([]);
    expect(rig.failures()).toEqual([]);
    expect(await api?.connection.request('/x')).toMatchObject({ kind: 'network' });
  });

  test('a new name in discovery is no new connection', async () => {
    const rig = rigOf({}, tenantCluster());
    rig.put(PLACE, kubeconfigText());
    await rig.pass();
    const [before] = rig.access.list();
    rig.discovery.find(tenantCluster('a', { displayName: 'Acme' }));
    const [after] = rig.access.list();
    expect(after?.cluster.displayName).toBe('Acme');
    expect(after?.connection).toBe(before?.connection);
  });

  test('a round of discovery during the first look is taken for another tenant cluster', async () => {
    const rig = rigOf({}, tenantCluster());
    await new Promise(setImmediate);
    rig.discovery.find(tenantCluster());
    await rig.settle();
    expect(rig.failures()).toEqual([MISSING]);
  });

  test('what was read of a tenant cluster that has changed meanwhile is trusted', async () => {
    const rig = rigOf({}, tenantCluster('a', { nodeMode: 'shared' }));
    await rig.settle();
    rig.discovery.find(tenantCluster('a', { nodeMode: 'private' }));
    await rig.settle();
    expect(rig.failures()).toEqual([MISSING]);
    expect(rig.requests).toEqual([PLACE, PLACE]);
  });

  test('listeners are called for each of a burst of changes separately', async () => {
    const rig = rigOf({});
    let reported = 0;
    const end = rig.access.subscribe(() => (reported += 1));
    rig.put('tenant-t0/svc-kubeconfig', kubeconfigText());
    rig.discovery.find(...Array.from({ length: 50 }, (_, index) => tenantCluster(`t${index}`)));
    await rig.settle();
    expect(reported).toBeGreaterThan(0);
    expect(reported).toBeLessThan(25);
    expect(rig.access.missing()).toHaveLength(49);
    end();
  });
});

test('an external tenant cluster’s kubeconfig is read from its file, and again when it changes', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tenant-api-'));
  closers.push(() => rm(directory, { recursive: true }));
  const kubeconfigFile = join(directory, 'kubeconfig');
  const external = tenantCluster('x', {
    id: 'external-x',
    source: 'external',
    namespace: '',
    kubeconfigFile,
  });
  const rig = rigOf({}, external);
  await rig.settle();
  expect(rig.failures()).toEqual([`external-x: no kubeconfig: file "${kubeconfigFile}": ENOENT`]);
  const write = async (server: string) => {
    await writeFile(`${kubeconfigFile}.new`, kubeconfigText({ cluster: { server } }));
    await rename(`${kubeconfigFile}.new`, kubeconfigFile);
    await rig.pass();
  };
  await write('https://10.1.2.3:6443');
  // The administrator's word: any private address, and localhost is localhost.
  expect(rig.access.list()[0]?.connection.kubeConfig.getCurrentCluster()?.server).toBe(
    'https://10.1.2.3:6443',
  );
  await write('https://localhost:6443');
  expect(rig.access.list()[0]?.connection.kubeConfig.getCurrentCluster()?.server).toBe(
    'https://localhost:6443',
  );
  await write('https://169.254.169.254');
  expect(rig.failures()[0]).toContain('clusters[0].cluster.server: address not allowed');
  expect(rig.requests).toEqual([]);
});

test('no line that is logged has a credential in it', async () => {
  const rig = rigOf({}, tenantCluster(), tenantCluster('b'));
  rig.put(PLACE, kubeconfigText({ user: { token: 'canary-token' } }));
  rig.put('tenant-b/svc-kubeconfig', kubeconfigText({ user: { password: 'canary-password' } }));
  await rig.pass();
  const stated = [...rig.logger.lines, ...rig.failures()].join('\n');
  expect(stated).toContain('kubeconfig accepted');
  expect(stated).toContain('users[0].user.password: not accepted');
  expect(stated).not.toContain('canary');
});
