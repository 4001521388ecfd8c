import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import { manifest, webhookDestination } from '../e2e/local/custom-resources.ts';
import { testTenant } from '../operator/destinations/testing/context.ts';
import { loadKubeConfig } from '../operator/kubernetes/kube-config.ts';
import { usePostgres } from '../operator/ledger/testing/postgres-ledger.ts';
import { isRecord } from '../operator/model/is-record.ts';
import {
  playMeter,
  startHub,
  startReceiving,
  usageOf,
} from '../operator/app/hub/testing/fleet-world.ts';
import {
  auditedRequests,
  deniedRequests,
  idleRights,
  rightsOf,
  serviceAccountKubeconfig,
  serviceAccountUser,
} from './testing/rights.ts';

const cluster = useOwnTestCluster({ audit: true });
const used = usePostgres();
const HUB = join(import.meta.dirname, 'hub');
const ACCOUNT = ['meterfeed-hub', 'meterfeed-hub'] as const;
const [NAMESPACE] = ACCOUNT;
/** Nothing runs it: what counts is its label. */
const POD = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name: 'hub-0',
    namespace: NAMESPACE,
    labels: { 'app.kubernetes.io/name': 'meterfeed' },
  },
  spec: {
    automountServiceAccountToken: false,
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: 'operator',
        image: 'none',
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
      },
    ],
  },
};
const WITHIN = { timeout: 30_000, interval: 100 };

let directory = '';
const cleanups: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-hub-rights-'));
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});
afterAll(() => rm(directory, { recursive: true, force: true }));
const started = async <T extends { stop(): Promise<unknown> }>(
  starting: Promise<T>,
): Promise<T> => {
  const it = await starting;
  cleanups.push(() => it.stop());
  return it;
};

test('a hub is installed by one command, has no right on what is metered and keeps nothing there', async () => {
  const rendered = await cluster.kubectl(['kustomize', HUB]);
  const objects = parseAllDocuments(rendered).map((one): unknown => one.toJS());
  const kinds = objects.flatMap((one) => (isRecord(one) ? [String(one['kind'])] : []));
  expect(kinds.toSorted((a, b) => (a < b ? -1 : 1))).toEqual([
    'ClusterRole',
    'ClusterRoleBinding',
    'ConfigMap',
    'Deployment',
    'Namespace',
    'PodDisruptionBudget',
    'Role',
    'Role',
    'Role',
    'RoleBinding',
    'RoleBinding',
    'RoleBinding',
    'Service',
    'ServiceAccount',
    'ValidatingAdmissionPolicy',
    'ValidatingAdmissionPolicyBinding',
  ]);
  expect(objects).toContainEqual(
    expect.objectContaining({
      kind: 'ConfigMap',
      data: expect.objectContaining({ ROLE: 'hub' }),
    }),
  );
  const deployment = objects.find((one) => isRecord(one) && one['kind'] === 'Deployment');
  expect(deployment).toMatchObject({
    metadata: { namespace: NAMESPACE },
    spec: {
      replicas: 2,
      template: {
        spec: {
          serviceAccountName: 'meterfeed-hub',
          // More than an operator has: a hub knows what all streams measure (docs/how-to/fleet.md#memory).
          containers: [
            {
              env: expect.arrayContaining([
                expect.objectContaining({
                  name: 'NODE_OPTIONS',
                  value: '--max-old-space-size=1408',
                }),
              ]),
              resources: { limits: { memory: '2Gi' } },
            },
          ],
        },
      },
    },
  });
  expect(await cluster.kubectl(['apply', '--kustomize', HUB])).toContain(
    'deployment.apps/meterfeed created',
  );
});

test('a BillingDestination of the hub’s cluster is fed by every stream until it is deleted, with the rights that the hub has and no others', async () => {
  await cluster.installCRDs(join(import.meta.dirname, '../crds/billingdestinations.yaml'));
  await cluster.kubectl(['apply', '--kustomize', HUB]);
  const kubeconfig = join(directory, 'kubeconfig');
  await writeFile(kubeconfig, await serviceAccountKubeconfig(cluster, ...ACCOUNT), { mode: 0o600 });
  const access = loadKubeConfig({ kind: 'file', path: kubeconfig });
  if (access.kind === 'invalid') throw new Error(access.reason);
  const received = await started(startReceiving());
  const destination = { url: received.url, secret: 'a-signing-key' };
  await cluster.kubectl(
    ['apply', '--filename', '-'],
    manifest(webhookDestination('main', destination, NAMESPACE)),
  );
  const database = await used.server().createDatabase();
  const bill = async (source: string, region: string) => {
    const meter = await started(playMeter(database, { source, region }));
    await meter.setTenants(testTenant({ id: source, displayName: source, clusters: [source] }));
    await meter.ledger.append({ events: [usageOf(source, region)] });
    return meter;
  };
  const berlin = await bill('berlin', 'eu-1');
  const { kubeConfig } = access;
  await cluster.kubectl(['apply', '--filename', '-'], manifest([POD]));
  const hub = await started(
    startHub([database], {}, { kubeConfig, namespace: NAMESPACE }, POD.metadata.name),
  );
  await cluster.kubectl([
    'wait',
    '--for=jsonpath={.metadata.labels.meterfeed\\.io/role}=leader',
    '--timeout=30s',
    '--namespace',
    NAMESPACE,
    'pod/hub-0',
  ]);
  const usage = () => received.events.filter((one) => one.includes('.usage.')).toSorted();
  await expect.poll(usage, WITHIN).toEqual([expect.stringMatching(/^berlin /)]);
  const paris = await bill('paris', 'eu-2');
  await expect.poll(usage, WITHIN).toHaveLength(2);
  await cluster.kubectl(['wait', '--for=condition=Ready', '--timeout=30s', 'bdest/main']);
  const object = async () => JSON.parse(await cluster.kubectl(['get', 'bdest/main', '-o', 'json']));
  expect(await object()).toMatchObject({
    metadata: { finalizers: ['meterfeed.io/hub-cursors'] },
    status: { conditions: expect.arrayContaining([expect.objectContaining({ status: 'True' })]) },
  });
  expect(await hub.get('/api/v1/status')).toMatchObject({
    json: { destinations: [{ name: 'main', type: 'webhook' }] },
  });

  await cluster.kubectl(['delete', '--timeout=30s', 'bdest/main']);
  const retired = () =>
    Promise.all(
      [berlin, paris].map(async (meter) =>
        (await meter.cursors()).map(({ retiredAt }) => retiredAt !== undefined),
      ),
    );
  await expect.poll(retired, WITHIN).toEqual([[true], [true]]);
  const user = serviceAccountUser(...ACCOUNT);
  const rights = await rightsOf(cluster, ...ACCOUNT);
  const idle = async () => idleRights(rights, await auditedRequests(cluster, user));
  await expect.poll(idle, WITHIN).toEqual([]);
  expect(deniedRequests(await auditedRequests(cluster, user))).toEqual([]);
}, 120_000);
