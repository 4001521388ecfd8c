import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import type { RunningOperator } from '../e2e/local/operator-process.ts';
import { manifest, webhookDestination } from '../e2e/local/custom-resources.ts';
import { type Receiver, startReceiver } from '../e2e/receiver/receiver.ts';
import { acceptPod, runContainers } from '../e2e/simulator/pod-lifecycle.ts';
import { createApiClient } from '../e2e/simulator/api-client.ts';
import { podObject } from '../e2e/simulator/pods.ts';
import { chart, flags, NAMESPACE, useHelm } from './testing/helm.ts';
import { startPod, statefulSet } from './testing/stateful-pod.ts';

const cluster = useOwnTestCluster();
const helm = useHelm(cluster);
const CHART_NAMES = ['meterfeed-crds', 'meterfeed'];
const SECRET = 'upgrade-receiver';
const PATIENCE = { timeout: 90_000, interval: 500 };

/** Who installed the previous chart has these; an upgrade keeps them. */
const VALUES = flags(['settings.COLLECTION_INTERVAL=10s', 'settings.CPU_MEMORY_BASIS=requests']);

/** A chart as it was before, in testing/previous. */
const previous = (name: string): string =>
  join(import.meta.dirname, `testing/previous/${name}-0.1.0.tgz`);

interface Obj {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec?: unknown;
  readonly status?: unknown;
}

const get = async (...what: readonly string[]): Promise<readonly Obj[]> => {
  const answer = await cluster.kubectl(['get', ...what, '--output', 'json']);
  const found = JSON.parse(answer) as Obj | { readonly items: readonly Obj[] };
  return 'items' in found ? found.items : [found];
};

/** Name and uid of all that a release consists of. */
async function installed(release: string): Promise<ReadonlyMap<string, string>> {
  const manifests = await helm.run('get', 'manifest', release, '--namespace', NAMESPACE);
  const answer = await cluster.kubectl(['get', '--filename', '-', '--output', 'json'], manifests);
  const { items } = JSON.parse(answer) as { readonly items: readonly Obj[] };
  return new Map(items.map(({ kind, metadata }) => [`${kind}/${metadata.name}`, metadata.uid]));
}

/** What of objects nobody but their owners may change. */
function shown(objects: readonly Obj[]) {
  return objects.map(({ kind, metadata: { name, uid }, spec, status }) => ({
    kind,
    name,
    uid,
    spec,
    status,
  }));
}

/** Up to which event the ledger goes, and how far its one destination has come. */
async function reached({ address }: RunningOperator) {
  const response = await fetch(`${address}/api/v1/status`);
  const { ledger } = (await response.json()) as {
    readonly ledger: {
      readonly committed: number;
      readonly cursors: Readonly<Record<string, number>>;
    };
  };
  return { head: ledger.committed, cursor: ledger.cursors['archive'] ?? 0 };
}

/** All that an upgrade has to leave as it is. */
async function stored() {
  const { metadata, spec } = await statefulSet(cluster);
  const { name, uid } = metadata;
  const { serviceName, volumeClaimTemplates } = spec;
  const lease = await get('lease', 'meterfeed', '--namespace', NAMESPACE);
  return {
    set: { name, uid, serviceName, volumeClaimTemplates },
    claims: shown(await get('persistentvolumeclaims', '--namespace', NAMESPACE)),
    lease: shown(lease),
    custom: shown(await get('billingdestinations,meteringpolicies,tenantoverrides')),
  };
}

/** In this order: each test goes on with the cluster as the one before left it. */
describe('an upgrade of the charts from those before', () => {
  let receiver: Receiver;
  let operator: RunningOperator;
  let before: Awaited<ReturnType<typeof reached>>;

  /** Until the destination has what the ledger has, and that is more than it was. */
  const deliveredBeyond = async (events: number): Promise<void> => {
    await vi.waitFor(async () => {
      const { head, cursor } = await reached(operator);
      expect(cursor).toBeGreaterThan(events);
      expect(receiver.stats().accepted).toBe(head);
    }, PATIENCE);
    before = await reached(operator);
  };

  beforeAll(async () => {
    receiver = await startReceiver({
      file: join(helm.directory(), 'received.ndjson'),
      secret: SECRET,
      port: 0,
    });
    await cluster.kubectl(['create', 'namespace', NAMESPACE]);
    for (const name of CHART_NAMES) {
      const values = name === 'meterfeed' ? VALUES : [];
      await helm.run('install', name, previous(name), '--namespace', NAMESPACE, ...values);
    }
    await cluster.kubectl(['wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all']);
    const destination = webhookDestination('archive', { url: receiver.url, secret: SECRET });
    await cluster.kubectl(['apply', '--filename', '-'], manifest([...OBJECTS, ...destination]));
    await runTenantPod();
    operator = await startPod(cluster, helm.directory());
    await deliveredBeyond(0);
    await operator.stop();
  }, 600_000);
  afterAll(async () => {
    await operator?.stop();
    await receiver?.stop();
  });

  test('replaces what was there, loses a status, or touches what cannot be changed', async () => {
    const was = await stored();
    expect(was.claims).toMatchObject([{ name: 'data-meterfeed-0' }]);
    expect(JSON.stringify(was.custom)).toContain('"Delivering"');
    const objects = new Map(await installed('meterfeed'));
    for (const name of CHART_NAMES) {
      const upgrade = ['upgrade', name, chart(name), '--namespace', NAMESPACE];
      await helm.run(...upgrade, '--reset-then-reuse-values');
    }
    const is = await stored();
    // Fields that came since have their defaults.
    expect(is.custom).toMatchObject(was.custom);
    expect({ ...is, custom: was.custom }).toStrictEqual(was);
    const made = [...(await installed('meterfeed'))].filter(([name]) => objects.has(name));
    expect(made).toEqual(made.map(([name]) => [name, objects.get(name)]));
    expect(made.length).toBeGreaterThan(5);
    expect(await cluster.kubectl(['get', 'pricebooks', '--output', 'name'])).toBe('');
  });

  test('leaves an operator that begins a ledger anew, or sends what was sent', async () => {
    const { head } = before;
    const was = await stored();
    operator = await startPod(cluster, helm.directory());
    await deliveredBeyond(head);
    expect(receiver.stats()).toMatchObject({ conflicts: 0, refused: 0, duplicates: 0 });
    const is = await stored();
    expect({ set: is.set, claims: is.claims }).toStrictEqual({ set: was.set, claims: was.claims });
    expect(is.lease.map(({ uid }) => uid)).toEqual(was.lease.map(({ uid }) => uid));
  }, 120_000);
});

/** A pod of the tenant cluster begins to run, by which it is billed. */
async function runTenantPod(): Promise<void> {
  const api = createApiClient(cluster.credentials, AbortSignal.timeout(60_000));
  const metadata = { namespace: 'a', name: 'p', labels: { 'vcluster.loft.sh/managed-by': 'a' } };
  const requests = { cpu: '3600m', memory: '1Gi' };
  const { object } = await api.ensure(podObject(metadata, 'node-1', requests, 'Always'));
  await acceptPod(api, object, Date.now());
  await runContainers(api, object, Date.now());
  await api.close();
}

const OBJECTS: readonly object[] = [
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a' } },
  {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'a', namespace: 'a', labels: { app: 'vcluster', release: 'a' } },
    spec: {
      serviceName: 'a',
      selector: { matchLabels: { app: 'vcluster', release: 'a' } },
      template: {
        metadata: { labels: { app: 'vcluster', release: 'a' } },
        spec: { containers: [{ name: 'control-plane', image: 'example.com/vcluster' }] },
      },
    },
  },
  {
    apiVersion: 'meterfeed.io/v1alpha1',
    kind: 'MeteringPolicy',
    metadata: { name: 'default' },
    spec: {},
  },
  {
    apiVersion: 'meterfeed.io/v1alpha1',
    kind: 'TenantOverride',
    metadata: { name: 'a' },
    spec: { match: { namespace: 'a', name: 'a' }, tenant: 'acme' },
  },
];
