import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findBinaries } from '../../e2e/control-plane/binaries.ts';
import { freePort } from '../../e2e/control-plane/ports.ts';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { type ManagedProcess, startProcess } from '../../e2e/processes/managed-process.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { connectWith } from '../kubernetes/testing/connect.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import type { UsageEvent } from '../model/event.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { eventsOf } from './testing/harness.ts';
import { startRealMetering } from './testing/real-metering.ts';

const url = `http://127.0.0.1:${await freePort()}`;
let directory: string;
let etcd: ManagedProcess;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-another-etcd-'));
  const binaries = await findBinaries({
    assets: process.env['KUBEBUILDER_ASSETS'],
    progress: () => undefined,
  });
  etcd = await startProcess({
    name: 'etcd',
    command: binaries.etcd,
    args: [
      `--data-dir=${join(directory, 'data')}`,
      `--listen-client-urls=${url}`,
      `--advertise-client-urls=${url}`,
      '--listen-peer-urls=http://127.0.0.1:0',
      '--unsafe-no-fsync=true',
    ],
    env: { PATH: process.env['PATH'] },
    logFile: join(directory, 'etcd.log'),
    pidFile: join(directory, 'etcd.pid'),
    ready: async () => (await fetch(`${url}/health`)).ok,
  });
});

afterAll(async () => {
  await etcd.stop();
  await rm(directory, { recursive: true });
});

/** Volumes are in the younger etcd, whose versions are far behind those of everything else. */
const api = useOwnTestCluster({
  apiServerFlags: { 'etcd-servers-overrides': `/persistentvolumeclaims#${url}` },
});
let connection: Connection;
let namespace: string;
let events: readonly UsageEvent[];
/** Moments of the run, milliseconds since the epoch. */
const times = { begun: 0, stopped: 0, changed: 0, allChanged: 0, restarted: 0 };

/** The newest of each etcd after all changes. */
const versions = { ofPods: 0, ofVolumes: 0 };

const sleep = (ms: number) => systemClock.sleep(ms);
const volumes = (name = '') =>
  `/api/v1/namespaces/${namespace}/persistentvolumeclaims${name && `/${name}`}`;

const services = (name = '') => `/api/v1/namespaces/${namespace}/services${name && `/${name}`}`;
/** Each object is billed apart, by its namespace inside of the tenant cluster. */
const metadataOf = (name: string) => ({
  name,
  labels: { 'vcluster.loft.sh/managed-by': 'a', 'vcluster.loft.sh/namespace': name },
});

async function addVolume(name: string): Promise<void> {
  await api.call('POST', volumes(), {
    metadata: metadataOf(name),
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'fast',
      resources: { requests: { storage: '1Gi' } },
    },
  });
}

async function bind(name: string): Promise<void> {
  const claim = await api.call('GET', volumes(name));
  const status = { phase: 'Bound', capacity: { storage: '1Gi' } };
  await api.call('PUT', `${volumes(name)}/status`, { ...claim, status });
}

/** Nothing else takes off the finalizer that protects a claim in use. */
async function free(name: string): Promise<void> {
  const { metadata, ...claim } = await api.call('GET', volumes(name));
  await api.call('PUT', volumes(name), {
    ...claim,
    metadata: { ...(metadata as object), finalizers: [] },
  });
}

async function addBalancer(name: string): Promise<void> {
  const service = await api.call('POST', services(), {
    metadata: metadataOf(name),
    spec: { type: 'LoadBalancer', ports: [{ port: 80 }] },
  });
  const status = { loadBalancer: { ingress: [{ ip: '192.0.2.7' }] } };
  await api.call('PUT', `${services(name)}/status`, { ...service, status });
}

async function addPod(name: string): Promise<void> {
  await api.call('POST', `/api/v1/namespaces/${namespace}/pods`, {
    metadata: { name },
    spec: { containers: [{ name: 'c', image: 'i' }] },
  });
}

const versionOf = ({ metadata }: Record<string, unknown>): number =>
  Number((metadata as { readonly resourceVersion: string }).resourceVersion);

beforeAll(async () => {
  // It remembers nothing of before, as one that runs for long: versions as low as those of volumes are too old for it.
  await api.stopApiServer();
  await api.startApiServer();
  connection = connectWith(api.kubeconfig);
  namespace = await api.createNamespace('another-etcd');
  const ledger = createMemoryLedger();
  const start = () =>
    startRealMetering({ connection, namespace, ledger, metering: { meterByNamespace: true } });
  const first = await start();
  while (first.collector.lastWindow === undefined) await sleep(50);
  await Promise.all(['removed', 'bound'].map(addVolume));
  await bind('removed');
  await free('removed');
  await addBalancer('balancer');
  times.begun = Date.now();
  await sleep(1_500);
  // Each watch is heard of once more, which proves that nothing has happened until then.
  await Promise.all([addVolume('last'), addBalancer('last')]);
  await sleep(200);
  await first.stop();
  times.stopped = Date.now();
  // By these, all that is of an older version was written soon after the stop.
  await addPod('early');
  await sleep(6_000);
  // Dates are of whole seconds: what is written in the middle of one is told from its beginning.
  await sleep(1_500 - (Date.now() % 1_000));
  times.changed = Date.now();
  await addPod('before');
  await Promise.all([
    api.call('DELETE', volumes('removed')),
    bind('bound'),
    api.call('DELETE', services('balancer')),
  ]);
  times.allChanged = Date.now();
  await addPod('after');
  const pods = await api.call('GET', `/api/v1/namespaces/${namespace}/pods?limit=1`);
  versions.ofPods = versionOf(pods);
  versions.ofVolumes = versionOf(await api.call('GET', `${volumes()}?limit=1`));
  await sleep(1_500);
  times.restarted = Date.now();
  const second = await start();
  const done = Date.now() + 2_000;
  while ((second.collector.lastWindow?.end ?? 0) < done) await sleep(50);
  await second.stop();
  events = await eventsOf(ledger);
}, 60_000);

afterAll(() => connection.close());

const METRICS = ['tenant_storage_gb_hours', 'tenant_lb_hours'];
const eventsAbout = (name: string) =>
  events
    .filter(({ metric }) => METRICS.includes(metric))
    .filter(({ dimensions }) => dimensions?.['namespace'] === name);

/** Seconds that are billed of a volume of 1 GiB, or of a load balancer. */
function billed(name: string): number {
  return eventsAbout(name).reduce((sum, { quantity }) => sum + Number(quantity) * 3600, 0);
}

/** The widest that its events say they may be off, seconds. */
function uncertain(name: string): number {
  const widths = eventsAbout(name).map(({ properties }) =>
    Number(properties?.['uncertain_seconds'] ?? 0),
  );
  return Math.max(0, ...widths);
}

test('volumes are in another etcd, whose versions are far behind', () => {
  expect(versions.ofVolumes).toBeGreaterThan(0);
  expect(versions.ofVolumes).toBeLessThan(versions.ofPods / 2);
});

test('W38: a volume that was bound while nobody looked is not dated by what is in another etcd, whose versions are far ahead', () => {
  const end = Math.max(...events.map(({ window_end }) => Date.parse(window_end)));
  expect(billed('bound')).toBeLessThanOrEqual((end - times.changed) / 1000);
  expect(billed('bound')).toBeGreaterThan(0);
});

test('W38: nor is one that was removed: when it was last known to be there and how long it may have lasted come to its life', () => {
  const life = (times.changed - times.begun) / 1000;
  expect(billed('removed')).toBeLessThanOrEqual((times.allChanged - times.begun) / 1000 + 1);
  expect(billed('removed') + uncertain('removed')).toBeGreaterThanOrEqual(life - 1);
});

test('W41: a kind in an etcd of its own leaves the others dated: a load balancer that went is billed to that moment, within two seconds, and no further', () => {
  // It began before, and its news may take a moment.
  expect(billed('balancer')).toBeLessThanOrEqual((times.allChanged - times.begun) / 1000 + 1);
  expect(billed('balancer')).toBeGreaterThanOrEqual((times.changed - times.begun) / 1000 - 2);
});
