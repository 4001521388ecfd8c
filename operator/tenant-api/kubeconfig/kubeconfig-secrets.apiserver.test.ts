import { readFile } from 'node:fs/promises';
import { afterEach, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { useOwnTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { createSettingsStore } from '../../settings/settings-store.ts';
import { settingsFrom } from '../../discovery/testing/host.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { TenantApiAccess } from '../access.ts';

import { base64, kubeconfigText } from '../testing/kubeconfigs.ts';
import { fakeDiscovery, tenantCluster } from '../testing/tenant-clusters.ts';

const api = useOwnTestCluster();
const RULES = new URL('../../../config/rbac/tenant-kubeconfigs.yaml', import.meta.url);
const ROLES = '/apis/rbac.authorization.k8s.io/v1/clusterroles';
const BINDINGS = '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/**
 * What the installation lets the operator do with Secrets, with other verbs for those who say so.
 */
async function connectionOf(user: string, verbs?: readonly string[]): Promise<Connection> {
  const [role] = parseAllDocuments(await readFile(RULES, 'utf8')).map(
    (document) => document.toJS() as { readonly rules: readonly object[] },
  );
  const rules = role?.rules.map((rule) => (verbs === undefined ? rule : { ...rule, verbs }));
  await api.call('POST', ROLES, { metadata: { name: user }, rules });
  await api.call('POST', BINDINGS, {
    metadata: { name: user },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: user },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }],
  });
  const connection = connectWith(await api.addUser(user));
  closers.push(() => connection.close());
  return connection;
}

/**
 * Access as that user has it to so many tenant clusters, each with a Secret of its own in its
 * namespace.
 */
async function rigOf(user: string, count: number, verbs?: readonly string[]) {
  const connection = await connectionOf(user, verbs);
  const clusters = Array.from({ length: count }, (_, index) => tenantCluster(`${user}-${index}`));
  for (const { namespace } of clusters) {
    await api.call('POST', '/api/v1/namespaces', { metadata: { name: namespace } });
    await put(namespace, 'first-token');
    // Nobody's but the tenant's.
    await put(namespace, 'canary', 'another');
  }
  const requested: string[] = [];
  const access = new TenantApiAccess({
    connection: {
      kubeConfig: connection.kubeConfig,
      request: (path, options) => {
        if (path.includes('secrets')) requested.push(path);
        return connection.request(path, options);
      },
      stream: (path, options) => {
        if (path.includes('secrets')) requested.push(`${path} watch`);
        return connection.stream(path, options);
      },
    },
    watchNamespaces: [],
    discovery: fakeDiscovery(...clusters),
    settings: createSettingsStore(settingsFrom()),
    clock: systemClock,
    random: Math.random,
    logger: createCapturingLogger(),
  });
  const stop = new AbortController();
  const running = access.run(stop.signal);
  closers.push(async () => {
    stop.abort();
    await running;
  });
  return { access, requested, clusters };
}

async function put(namespace: string, token: string, name = 'svc-kubeconfig'): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/secrets`;
  const data = { config: base64(kubeconfigText({ user: { token } })) };
  const body = { metadata: { name }, data };
  const { status } = await api.request('PUT', `${path}/${name}`, body);
  if (status === 404) await api.call('POST', path, body);
}

/** Each change of the access is a moment to look. */
async function until(access: TenantApiAccess, holds: () => boolean): Promise<void> {
  if (holds()) return;
  await new Promise<void>((resolve) => {
    const end = access.subscribe(() => {
      if (!holds()) return;
      end();
      resolve();
    });
  });
}

const tokens = (access: TenantApiAccess) =>
  access.list().map(({ connection }) => connection.kubeConfig.getCurrentUser()?.token);

test('P19: a thousand tenant clusters cost the API server a thousand requests again and again', async () => {
  const { access, requested, clusters } = await rigOf('watches', 30);
  await until(access, () => access.list().length === clusters.length);
  // With the rights of the installation, which are enough for no other name.
  expect(requested).toEqual(['/api/v1/secrets', '/api/v1/secrets watch']);
  expect(new Set(tokens(access))).toEqual(new Set(['first-token']));

  const [first, second] = clusters;
  await put(first?.namespace ?? '', 'next-token');
  await until(access, () => tokens(access).includes('next-token'));
  await api.call('DELETE', `/api/v1/namespaces/${second?.namespace}/secrets/svc-kubeconfig`);
  await until(access, () => access.missing().length > 0);
  expect(access.missing()).toMatchObject([
    {
      tenantCluster: second?.id,
      kind: 'absent',
      reason: `no kubeconfig: Secret "${second?.namespace}/svc-kubeconfig": missing`,
    },
  ]);
  await put(second?.namespace ?? '', 'found-again');
  await until(access, () => tokens(access).includes('found-again'));
  expect(access.missing()).toEqual([]);
  expect(requested).toHaveLength(2);
});

test('who may only get Secrets by name, as before, is locked out', async () => {
  const { access, requested, clusters } = await rigOf('gets', 3, ['get']);
  await until(access, () => access.list().length === clusters.length);
  expect(requested.filter((path) => path.endsWith('/svc-kubeconfig'))).toHaveLength(3);
});
