import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';

const cluster = useOwnTestCluster();
const run = promisify(execFile);
const CONFIG = fileURLToPath(new URL('.', import.meta.url));
const NAMESPACE = 'tenant-a';
const REFUSED =
  'only those with the verb bill on billingkeys.meterfeed.io may change keys of billing';
const WORKLOADS = ['statefulset', 'deployment'];
const OBJECTS = ['namespace', ...WORKLOADS];

/** Both have every right on the objects themselves; `billing` has the component's role too. */
const USERS = ['admin', 'billing'] as const;
type User = (typeof USERS)[number];

let directory = '';
const kubeconfigs = new Map<User, string>();

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-billing-keys-'));
  const from = (path: string): string => relative(directory, join(CONFIG, path));
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [from('default')],
    components: [from('components/billing-keys')],
  };
  await writeFile(join(directory, 'kustomization.yaml'), JSON.stringify(kustomization));
  await cluster.kubectl(['create', 'namespace', NAMESPACE]);
  for (const kind of WORKLOADS) {
    await cluster.kubectl(['apply', '--filename', '-'], JSON.stringify(workload(kind, 'main')));
  }
  for (const kind of OBJECTS) await change(undefined, 'label', kind, 'meterfeed.io/tenant=acme');
  await cluster.kubectl(['apply', '--kustomize', directory]);
  const rights = ['--verb=*', '--resource=namespaces,namespaces/status'];
  await cluster.kubectl(['create', 'clusterrole', 'namespaces', ...rights]);
  for (const user of USERS) {
    const path = join(directory, `${user}.kubeconfig`);
    await writeFile(path, await cluster.addUser(user), { mode: 0o600 });
    kubeconfigs.set(user, path);
    await bind(user, 'namespaces');
    // All rights within the namespace, on whatever resource.
    const within = ['--clusterrole=cluster-admin', `--user=${user}`, `--namespace=${NAMESPACE}`];
    await cluster.kubectl(['create', 'rolebinding', user, ...within]);
  }
  await bind('billing', 'meterfeed-billing-keys');
  // The API server takes a while to see a new policy.
  for (let round = 0; round < 100; round += 1) {
    if ((await change('admin', 'label', 'namespace', `meterfeed.io/tried=${round}`)) !== '') return;
    await sleep(500);
  }
  throw new Error('the policy takes no effect');
}, 180_000);

afterAll(() => rm(directory, { recursive: true, force: true }));

describe.each(OBJECTS)('keys of billing on a %s', (kind) => {
  test.each([
    ['changed', 'label', 'meterfeed.io/tenant=thief'],
    ['removed', 'label', 'meterfeed.io/tenant-'],
    ['added', 'label', 'meterfeed.io/plan=free'],
    ['added as annotation', 'annotate', 'meterfeed.io/exclude=true'],
    ['added to lift a suspension', 'label', 'suspended.meterfeed.io/a=false'],
  ])(
    'cannot be %s without the verb, whatever rights there are in the namespace',
    async (_what, verb, text) => {
      expect(await change('admin', verb, kind, text)).toContain(REFUSED);
    },
  );

  test('cannot be changed through the status either', async () => {
    const patch = JSON.stringify({ metadata: { annotations: { 'meterfeed.io/exclude': 'true' } } });
    const args = ['patch', kind, nameOf(kind), '--subresource=status', '--type=merge', '-p', patch];
    expect(await as('admin', args)).toContain(REFUSED);
  });

  test('leave all others free to change', async () => {
    expect(await change('admin', 'label', kind, 'team=blue')).toBe('');
    expect(await change('admin', 'annotate', kind, 'example.com/meterfeed.io=x')).toBe('');
  });

  test('are changed, added and removed by those with the verb', async () => {
    expect(await change('billing', 'label', kind, 'meterfeed.io/tenant=other')).toBe('');
    expect(await change('billing', 'annotate', kind, 'meterfeed.io/plan=gold')).toBe('');
    expect(await change('billing', 'annotate', kind, 'meterfeed.io/plan-')).toBe('');
    expect(await change('billing', 'label', kind, 'meterfeed.io/tenant=acme')).toBe('');
  });
});

test.each(WORKLOADS)('a new %s brings none without the verb', async (kind) => {
  const create = (user: User, name: string, labels: object) =>
    as(user, ['create', '--filename', '-'], JSON.stringify(workload(kind, name, labels)));
  const keys = { 'meterfeed.io/tenant': 'thief' };
  expect(await create('admin', 'a', keys)).toContain(REFUSED);
  expect(await create('admin', 'a', {})).toBe('');
  expect(await create('billing', 'b', keys)).toBe('');
});

async function bind(user: User, role: string): Promise<void> {
  const name = `${user}-${role}`;
  await cluster.kubectl([
    'create',
    'clusterrolebinding',
    name,
    `--clusterrole=${role}`,
    `--user=${user}`,
  ]);
}

/** Labels or annotates; as administrator of the cluster when no user is given. */
async function change(
  user: User | undefined,
  verb: string,
  kind: string,
  text: string,
): Promise<string> {
  return as(user, [verb, kind, nameOf(kind), text, '--overwrite']);
}

function nameOf(kind: string): string {
  return kind === 'namespace' ? NAMESPACE : 'main';
}

/** What kubectl complains of; nothing when it is done. */
async function as(user: User | undefined, args: readonly string[], input = ''): Promise<string> {
  const kubeconfig = user === undefined ? cluster.kubeconfigPath : (kubeconfigs.get(user) ?? '');
  const all = ['--kubeconfig', kubeconfig, '--namespace', NAMESPACE, ...args];
  const running = run(cluster.kubectlPath, all);
  running.child.stdin?.end(input);
  try {
    return (await running).stderr;
  } catch (error) {
    return String(error);
  }
}

function workload(kind: string, name: string, labels: object = {}) {
  const own = { app: name };
  return {
    apiVersion: 'apps/v1',
    kind: kind === 'deployment' ? 'Deployment' : 'StatefulSet',
    metadata: { name, namespace: NAMESPACE, labels },
    spec: {
      ...(kind === 'statefulset' && { serviceName: name }),
      selector: { matchLabels: own },
      template: {
        metadata: { labels: own },
        spec: { containers: [{ name: 'main', image: 'example.com/main' }] },
      },
    },
  };
}
