import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { lagoMessage, stripeMessage, subscriptionEvent } from './testing/alerts.ts';
import {
  createEstate,
  type ApiServerEstate,
  type PodMaker,
  STATEFUL_SET_CONTROLLER,
  synced,
} from './testing/estate.ts';
import { type RunningEnforcement, runEnforcement } from './testing/running-enforcement.ts';

const POLICY = fileURLToPath(
  new URL('../../../config/components/suspension-policy/policy.yaml', import.meta.url),
);
const TIMEOUT = { timeout: 10_000, interval: 20 };

const cluster = useOwnTestCluster();
let connection: Connection;
let estate: ApiServerEstate;
let ledger: Ledger;
let namespace: string;
let serial = 0;

beforeAll(async () => {
  connection = connectWith(cluster.kubeconfig);
  estate = createEstate(cluster);
  await cluster.kubectl(['apply', '--filename', POLICY]);
});

afterAll(async () => {
  await estate[Symbol.asyncDispose]();
  await connection.close();
});

beforeEach(async () => {
  ledger = createMemoryLedger();
  namespace = await cluster.createNamespace('tenant', { 'example.com/kept': 'yes' });
});

type Environment = Readonly<Record<string, string>>;
const start = (environment: Environment = {}) =>
  runEnforcement({ connection, ledger, environment });

/** Stripe says in which status the subscription of a tenant is. */
async function say(running: RunningEnforcement, tenant: string, status: string): Promise<void> {
  serial += 1;
  const now = Date.now();
  const event = subscriptionEvent(`evt_${serial}`, status, now);
  const object = { ...event.object, metadata: { vbilling_tenant_id: tenant } };
  const outcome = await running.post('stripe', stripeMessage({ ...event, object }, now));
  expect(outcome.kind).toBe('applied');
}

const tenantOf = (name: string) => `tenant-${namespace}-${name}`;

async function discovered(running: RunningEnforcement, ...names: readonly string[]): Promise<void> {
  const found = () => running.discovery.clusters().map(({ id }) => id);
  await expect
    .poll(found, TIMEOUT)
    .toStrictEqual(expect.arrayContaining(names.map((name) => tenantOf(name))));
}

function becomes(maker: PodMaker, labels: Readonly<Record<string, string>>, status: number) {
  const attempt = async () => (await maker.tryPod(namespace, labels)).status;
  return expect.poll(attempt, TIMEOUT).toBe(status);
}

interface Metadata {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

async function metadataOf(path: string): Promise<Metadata> {
  const { labels, annotations } = (await cluster.call('GET', path))['metadata'] as Metadata;
  return { ...(labels && { labels }), ...(annotations && { annotations }) };
}

const namespaceMetadata = () => metadataOf(`/api/v1/namespaces/${namespace}`);
const workloadMetadata = (name: string) =>
  metadataOf(`/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}`);

async function everything(...names: readonly string[]) {
  return [await namespaceMetadata(), ...(await Promise.all(names.map(workloadMetadata)))];
}

test('a suspended tenant gets no new pods, its control plane and running pods go on, and payment restores everything exactly', async () => {
  await estate.addTenantCluster(namespace, 'a');
  const before = await everything('a');
  await using running = await start();
  await discovered(running, 'a');
  const syncer = await estate.syncer(namespace, 'vc-a');
  expect((await syncer.makePod(namespace, 'old', synced('a'))).status).toBe(201);

  await say(running, tenantOf('a'), 'unpaid');
  await becomes(syncer, synced('a'), 403);
  const { message } = await syncer.tryPod(namespace, synced('a'));
  expect(message).toContain(
    'tenant cluster is suspended: "a": new pods wait until billing is settled',
  );
  const old = `/api/v1/namespaces/${namespace}/pods/old`;
  expect(await metadataOf(old)).toStrictEqual({ labels: synced('a') });
  const controller = await estate.somebody(STATEFUL_SET_CONTROLLER);
  const controlPlane = { app: 'vcluster', release: 'a' };
  expect((await controller.tryPod(namespace, controlPlane)).status).toBe(201);
  await expect
    .poll(() => workloadMetadata('a'), TIMEOUT)
    .toMatchObject({
      labels: { 'meterfeed.io/billing-state': 'suspended' },
      annotations: {
        'meterfeed.io/billing-reason': 'customer.subscription.updated: unpaid',
        'meterfeed.io/billing-state-at': expect.stringMatching(/^20\d\d-.*Z$/),
      },
    });
  expect(running.enforcement.status()).toMatchObject({ suspendedClusters: [tenantOf('a')] });

  await say(running, tenantOf('a'), 'active');
  await becomes(syncer, synced('a'), 201);
  await expect.poll(() => everything('a'), TIMEOUT).toStrictEqual(before);
  const managers = async () =>
    JSON.stringify(await cluster.call('GET', `/api/v1/namespaces/${namespace}`));
  expect(await managers()).not.toContain('meterfeed-enforcement');
  const reasons = async () => {
    const path = `/apis/events.k8s.io/v1/namespaces/${namespace}/events`;
    const { items } = (await cluster.call('GET', path)) as { items: { reason: string }[] };
    return items.map(({ reason }) => reason).toSorted();
  };
  await expect
    .poll(reasons, TIMEOUT)
    .toStrictEqual(['BillingStateActive', 'BillingStateSuspended']);
});

describe('in a shared namespace', () => {
  test('only the suspended tenant cluster is hit (accident 40), and no label helps it (accident 32)', async () => {
    await estate.addTenantCluster(namespace, 'a');
    await estate.addTenantCluster(namespace, 'b');
    await using running = await start();
    await discovered(running, 'a', 'b');
    const [a, b] = [await estate.syncer(namespace, 'vc-a'), await estate.syncer(namespace, 'vc-b')];
    const person = await estate.somebody('somebody-with-rights');
    await say(running, tenantOf('a'), 'unpaid');
    await becomes(a, synced('a'), 403);

    const refused: readonly (readonly [string, PodMaker, Readonly<Record<string, string>>])[] = [
      ['its own', a, synced('a')],
      ['dressed as a control plane', a, synced('a', { app: 'vcluster', release: 'a' })],
      ['dressed as an etcd', a, synced('a', { app: 'vcluster-etcd' })],
      ['without the label of its syncer', a, {}],
      ['a control plane without that label', a, { app: 'vcluster', release: 'a' }],
      ['under the neighbour’s name', a, synced('b')],
      ['under nobody’s name', a, synced('ghost')],
      [
        'with the mark of a running one',
        a,
        { ...synced('a'), 'suspended.meterfeed.io/a': 'false' },
      ],
      ['through the neighbour’s syncer', b, synced('a')],
      ['from somebody, unlabelled', person, {}],
      ['from somebody, under nobody’s name', person, synced('ghost')],
      ['from somebody, as a control plane', person, { app: 'vcluster', release: 'b' }],
    ];
    for (const [how, maker, labels] of refused) {
      expect((await maker.tryPod(namespace, labels)).status, how).toBe(403);
    }
    const controller = await estate.somebody(STATEFUL_SET_CONTROLLER);
    const admitted: typeof refused = [
      ['the neighbour’s', b, synced('b')],
      ['the neighbour’s, dressed up', b, synced('b', { app: 'vcluster' })],
      ['its control plane', controller, { app: 'vcluster', release: 'a' }],
      ['its etcd', controller, { app: 'vcluster-etcd', release: 'a' }],
      ['the neighbour’s control plane', controller, { app: 'vcluster', release: 'b' }],
    ];
    for (const [how, maker, labels] of admitted) {
      expect((await maker.tryPod(namespace, labels)).status, how).toBe(201);
    }
    const { labels } = await namespaceMetadata();
    expect(labels).not.toHaveProperty('meterfeed.io/billing-state');
    expect(await workloadMetadata('b')).not.toHaveProperty('labels.meterfeed.io/billing-state');
  });

  test('a service account that both use stops neither the neighbour nor the policy', async () => {
    await estate.addTenantCluster(namespace, 'a', 'common');
    await estate.addTenantCluster(namespace, 'b', 'common');
    await using running = await start();
    await discovered(running, 'a', 'b');
    const both = await estate.syncer(namespace, 'common');
    await say(running, tenantOf('a'), 'unpaid');
    await becomes(both, synced('a'), 403);
    expect((await both.tryPod(namespace, synced('b'))).status).toBe(201);
    expect((await both.tryPod(namespace, {})).status).toBe(403);
  });

  test('a tenant cluster that comes later may run, as soon as it is known', async () => {
    await estate.addTenantCluster(namespace, 'a');
    await using running = await start();
    await discovered(running, 'a');
    await say(running, tenantOf('a'), 'unpaid');
    await becomes(await estate.syncer(namespace, 'vc-a'), synced('a'), 403);
    await estate.addTenantCluster(namespace, 'c');
    await becomes(await estate.syncer(namespace, 'vc-c'), synced('c'), 201);
  });
});

test('a namespace that the syncer maps for its tenant is no way round', async () => {
  await estate.addTenantCluster(namespace, 'a');
  const host = namespace;
  const tenant = tenantOf('a');
  await using running = await start();
  await discovered(running, 'a');
  const managedBy = { 'vcluster.loft.sh/managed-by': `${host}-x-a` };
  const syncer = await estate.syncer(host, 'vc-a');
  namespace = await cluster.createNamespace('mapped', managedBy);
  await becomes(syncer, synced('a'), 201);
  await say(running, tenant, 'unpaid');
  await becomes(syncer, synced('a'), 403);
  await say(running, tenant, 'active');
  await becomes(syncer, synced('a'), 201);
  expect((await namespaceMetadata()).labels).toMatchObject(managedBy);
});

test('C35: a namespace that a newer syncer maps is no way round, whoever makes the pods in it', async () => {
  await estate.addTenantCluster(namespace, 'a');
  const host = namespace;
  const tenant = tenantOf('a');
  await using running = await start();
  await discovered(running, 'a');
  const syncer = await estate.syncer(host, 'vc-a');
  const controller = await estate.somebody(STATEFUL_SET_CONTROLLER);
  namespace = await cluster.createNamespace('team', {
    'vcluster.loft.sh/vcluster-name': 'a',
    'vcluster.loft.sh/vcluster-namespace': host,
  });
  await becomes(syncer, synced('a'), 201);
  await say(running, tenant, 'unpaid');
  await becomes(syncer, synced('a'), 403);
  // A controller of the host makes pods of what the tenant has synced.
  await becomes(controller, { app: 'vcluster', release: 'a' }, 403);
  expect((await controller.tryPod(host, { app: 'vcluster', release: 'a' })).status).toBe(201);
  expect((await namespaceMetadata()).labels).toMatchObject({
    'meterfeed.io/billing-state': 'suspended',
    'suspended.meterfeed.io/a': 'true',
  });
  await say(running, tenant, 'active');
  await becomes(syncer, synced('a'), 201);
});

describe('suspension holds', () => {
  test('for a new tenant cluster of a suspended tenant (accident 40)', async () => {
    await cluster.kubectl(['label', 'namespace', namespace, 'meterfeed.io/tenant=acme']);
    await using running = await start();
    await expect.poll(() => running.discovery.known(), TIMEOUT).toBe(true);
    await say(running, 'acme', 'unpaid');
    await estate.addTenantCluster(namespace, 'late');
    await becomes(await estate.syncer(namespace, 'vc-late'), synced('late'), 403);
  });

  test('when somebody takes the marks away', async () => {
    await estate.addTenantCluster(namespace, 'a');
    await using running = await start();
    await discovered(running, 'a');
    await say(running, tenantOf('a'), 'unpaid');
    const syncer = await estate.syncer(namespace, 'vc-a');
    await becomes(syncer, synced('a'), 403);
    const marks = ['meterfeed.io/suspended-', 'suspended.meterfeed.io/a-'];
    await cluster.kubectl(['label', 'namespace', namespace, ...marks]);
    await becomes(syncer, synced('a'), 403);
    await expect.poll(namespaceMetadata, TIMEOUT).toMatchObject({
      labels: { 'meterfeed.io/suspended': 'true', 'suspended.meterfeed.io/a': 'true' },
    });
  });

  test('through a restart, and a state that fell meanwhile is followed', async () => {
    await estate.addTenantCluster(namespace, 'a');
    const before = await everything('a');
    const syncer = await estate.syncer(namespace, 'vc-a');
    {
      await using first = await start();
      await discovered(first, 'a');
      await say(first, tenantOf('a'), 'unpaid');
      await becomes(syncer, synced('a'), 403);
    }
    expect((await syncer.tryPod(namespace, synced('a'))).status).toBe(403);
    {
      await using second = await start();
      await discovered(second, 'a');
      expect(second.enforcement.stateOf(tenantOf('a')).state).toBe('suspended');
      await second.enforcement.setManual(tenantOf('a'), 'active', 'agreed by phone');
    }
    await using third = await start();
    await discovered(third, 'a');
    await becomes(syncer, synced('a'), 201);
    await expect.poll(() => everything('a'), TIMEOUT).toStrictEqual(before);
    await third.enforcement.clearManual(tenantOf('a'));
    await becomes(syncer, synced('a'), 403);
  });
});

describe('another mode', () => {
  test.each([
    ['annotate', { 'meterfeed.io/billing-state': 'suspended' }],
    ['observe', {}],
  ])(
    'after a restart, %s, takes away what it does not call for (accident 40)',
    async (mode, stored) => {
      await estate.addTenantCluster(namespace, 'a');
      const [before] = await everything();
      const syncer = await estate.syncer(namespace, 'vc-a');
      {
        await using first = await start();
        await discovered(first, 'a');
        await say(first, tenantOf('a'), 'unpaid');
        await becomes(syncer, synced('a'), 403);
      }
      await using second = await start({ ENFORCEMENT_MODE: mode });
      await becomes(syncer, synced('a'), 201);
      const labels = { ...before?.labels, ...stored };
      await expect.poll(namespaceMetadata, TIMEOUT).toStrictEqual({ labels });
      expect(second.enforcement.stateOf(tenantOf('a')).state).toBe('suspended');
      expect(second.enforcement.status().suspendedClusters).toStrictEqual([]);
    },
  );

  test('observe writes nothing to the API server', async () => {
    await estate.addTenantCluster(namespace, 'a');
    const before = await everything('a');
    await using running = await start({ ENFORCEMENT_MODE: 'observe' });
    await discovered(running, 'a');
    await say(running, tenantOf('a'), 'unpaid');
    await running.discovery.runPass();
    expect(running.enforcement.stateOf(tenantOf('a')).state).toBe('suspended');
    expect(running.enforcement.status().pending).toBe(0);
    expect(await everything('a')).toStrictEqual(before);
  });
});

test('an exempt tenant cluster shows its state and is never suspended', async () => {
  await estate.addTenantCluster(namespace, 'a');
  const match = { kind: 'cluster', namespace, name: 'a' } as const;
  const override = { name: 'vip', createdAt: 0, match, enforcementExempt: true };
  await using running = await runEnforcement({ connection, ledger, overrides: [override] });
  await discovered(running, 'a');
  await say(running, tenantOf('a'), 'unpaid');
  await expect
    .poll(() => workloadMetadata('a'), TIMEOUT)
    .toMatchObject({
      labels: { 'meterfeed.io/billing-state': 'suspended' },
    });
  const syncer = await estate.syncer(namespace, 'vc-a');
  expect((await syncer.tryPod(namespace, synced('a'))).status).toBe(201);
  running.settings.setOverride('vip', undefined);
  await becomes(syncer, synced('a'), 403);
  running.settings.setOverride('vip', override);
  await becomes(syncer, synced('a'), 201);
});

test('with LABEL_PREFIX the names for people change, and the policy’s do not', async () => {
  await estate.addTenantCluster(namespace, 'a');
  await using running = await start({ LABEL_PREFIX: 'vbilling.vcluster.com' });
  await discovered(running, 'a');
  await say(running, tenantOf('a'), 'unpaid');
  await becomes(await estate.syncer(namespace, 'vc-a'), synced('a'), 403);
  expect((await namespaceMetadata()).labels).toMatchObject({
    'vbilling.vcluster.com/billing-state': 'suspended',
  });
});

test('without the rights, the log says what is missing, and the work is done once they are there', async () => {
  await estate.addTenantCluster(namespace, 'a');
  const reader = `reader-${namespace}`;
  const powerless = connectWith(await cluster.addUser(reader));
  const roles = '/apis/rbac.authorization.k8s.io/v1/clusterroles';
  await cluster.call('POST', roles, {
    metadata: { name: 'test-reader' },
    rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['list', 'watch'] }],
  });
  const view = ['--clusterrole=test-reader', `--user=${reader}`];
  await cluster.kubectl(['create', 'clusterrolebinding', reader, ...view]);
  await using running = await runEnforcement({ connection: powerless, ledger });
  await discovered(running, 'a');
  await say(running, tenantOf('a'), 'unpaid');
  const problems = () => running.enforcement.status().problems.join('\n');
  await expect
    .poll(problems, TIMEOUT)
    .toContain(`Namespace/${namespace} cannot be marked: HTTP 403`);
  expect(problems()).toContain('grant it with config/components/enforcement');
  expect(running.enforcement.stateOf(tenantOf('a')).state).toBe('suspended');
  const patch = ['--clusterrole=cluster-admin', `--user=${reader}`];
  await cluster.kubectl(['create', 'clusterrolebinding', `${reader}-admin`, ...patch]);
  await becomes(await estate.syncer(namespace, 'vc-a'), synced('a'), 403);
  await expect.poll(problems, TIMEOUT).toBe('');
  await powerless.close();
});

test('an external tenant cluster has a state and no marks; nothing fails (accident 40)', async () => {
  await estate.addTenantCluster(namespace, 'a');
  await using running = await start();
  await discovered(running, 'a');
  const alert = {
    lago_alert_id: 'a1',
    external_customer_id: 'external-edge',
    external_subscription_id: 'sub-external-edge',
    triggered_at: new Date().toISOString(),
  };
  const message = lagoMessage('k1', 'alert.triggered', 'triggered_alert', alert);
  expect(await running.post('lago', message)).toMatchObject({ kind: 'applied', state: 'warning' });
  expect(running.enforcement.status()).toStrictEqual({
    suspendedClusters: [],
    pending: 0,
    problems: [],
  });
});
