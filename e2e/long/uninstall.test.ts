import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  HOST_PATH_PROVISIONER,
  startControllerManager,
} from '../control-plane/controller-manager.ts';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { manifest, OPERATOR_NAMESPACE, webhookDestination } from '../local/custom-resources.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import type { ManagedProcess } from '../processes/managed-process.ts';
import { type Receiver, startReceiver } from '../receiver/receiver.ts';
import { PodRunner } from './pod-runner.ts';
import { missingWindows, readReceived, type ReceivedEvent } from './received.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const GUIDE = 'docs/how-to/uninstall.md';
const WINDOW_MS = 10_000;
const DESTINATION = 'invoicing';
const INSTALL = 'kubectl apply -k .';
const CLAIM = 'pvc/data-meterfeed-0';
/** Of the first event, however long it takes to build what the test needs. */
const PATIENCE = { timeout: 90_000, interval: 250 };

interface LedgerState {
  readonly sequence: number;
  readonly cursor: number;
  /** Every event as it is stored, in order, with the moment at which it was recorded. */
  readonly events: readonly string[];
}

/** Uninstalling and installing again by the words of the guide, with the controllers and volumes of a real cluster. */
describe('uninstalling as the guide says', () => {
  const cluster = useOwnTestCluster();
  let files: RunFiles;
  let manager: ManagedProcess;
  let receiver: Receiver;
  let pods: PodRunner;
  let directory = '';

  beforeAll(async () => {
    files = runFiles(await mkdtemp(join(tmpdir(), 'uninstall-')));
    manager = await startControllerManager(cluster);
    receiver = await startReceiver({ file: files.received, secret: 'signing-key', port: 0 });
    await apply(STORAGE_CLASS, ...TENANT);
    pods = new PodRunner({ cluster, files, env: SETTINGS });
    pods.start();
  }, 600_000);
  afterAll(async () => {
    const directories = await volumeDirectories(cluster.kubectl);
    await pods?.stop();
    await receiver?.stop();
    await manager?.stop();
    // The controller manager, which would delete the directories of volumes, is gone.
    for (const each of directories) await rm(each, { recursive: true, force: true });
    if (process.env['KEEP_RUN'] === undefined) {
      await rm(files.directory, { recursive: true, force: true });
    }
  });

  const apply = (...objects: readonly object[]): Promise<string> =>
    cluster.kubectl(['apply', '--filename', '-'], manifest(objects));

  /** What a person types, in a shell with kubectl, in the root of the repository. */
  const type = async (commands: string): Promise<string> => {
    const path = [dirname(cluster.kubectlPath), process.env['PATH']].join(delimiter);
    const env = { ...process.env, PATH: path, KUBECONFIG: cluster.kubeconfigPath };
    const options = { cwd: ROOT, env, timeout: 60_000 };
    const { stdout } = await promisify(execFile)('bash', ['-euc', commands], options);
    return stdout;
  };

  const exists = async (...object: readonly string[]): Promise<boolean> =>
    (await cluster.kubectl(['get', ...object, '--ignore-not-found'])) !== '';

  const own = (object: string): Promise<boolean> =>
    exists(object, `--namespace=${OPERATOR_NAMESPACE}`);

  const api = async (path: string): Promise<Record<string, unknown>> => {
    const response = await fetch(`${pods.address ?? 'http://no-pod.invalid'}${path}`);
    return (await response.json()) as Record<string, unknown>;
  };

  const ledgerState = async (): Promise<LedgerState> => {
    const { ledger } = (await api('/api/v1/status')) as {
      ledger: { committed: number; cursors: Record<string, number> };
    };
    const { committed: sequence, cursors } = ledger;
    const response = await fetch(`${pods.address}/api/v1/events?from=2026-01-01`);
    const events = (await response.text()).trimEnd().split('\n').slice(0, sequence);
    return { sequence, cursor: cursors[DESTINATION] ?? Number.NaN, events };
  };

  const lastEnd = (events: readonly ReceivedEvent[]): number =>
    Math.max(0, ...events.map(({ window_end }) => Date.parse(window_end)));

  /** Waits until the receiver has windows that end after this moment. */
  const windowsPass = async (count: number): Promise<void> => {
    const until = Date.now() + count * WINDOW_MS;
    await vi.waitFor(() => expect(lastEnd(readReceived(files.received))).toBeGreaterThan(until), {
      ...PATIENCE,
      timeout: PATIENCE.timeout + count * WINDOW_MS,
    });
  };

  const addDestination = (): Promise<string> =>
    apply(...webhookDestination(DESTINATION, { url: receiver.url, secret: 'signing-key' }));

  /** Installs by the README's command and waits until usage arrives. */
  const install = async (): Promise<void> => {
    await type(INSTALL);
    await vi.waitFor(() => expect(pods.address).toBeDefined(), PATIENCE);
  };

  /** Every window once, from the first to the last, and nothing sent again. */
  const expectBilledOnce = (): void => {
    const events = readReceived(files.received);
    const charges = events.map(({ tenant, metric, window_start }) =>
      [tenant, metric, window_start].join(' '),
    );
    expect(charges.filter((charge, index) => charges.indexOf(charge) !== index)).toEqual([]);
    expect(missingWindows(events, WINDOW_MS)).toEqual([]);
    expect(receiver.stats()).toMatchObject({ duplicates: 0, conflicts: 0, refused: 0 });
  };

  /** The ledger of before goes on: nothing of it was written anew, and its chain is whole. */
  const expectSameLedger = async (before: LedgerState): Promise<void> => {
    const after = await ledgerState();
    expect(after.sequence).toBeGreaterThanOrEqual(before.sequence);
    expect(after.cursor).toBeGreaterThanOrEqual(before.cursor);
    const verified = await api('/api/v1/ledger/verify');
    expect(verified).toMatchObject({ ok: true });
    expect(after.events.slice(0, before.events.length)).toEqual(before.events);
    expect(before.events.length).toBeGreaterThan(0);
  };

  test('a fresh installation meters into a volume of its own', async () => {
    await install();
    directory = await volumeDirectory(cluster.kubectl);
    await addDestination();
    await windowsPass(2);
    expect(existsSync(directory)).toBe(true);
    expectBilledOnce();
  });

  test('keeping the ledger: nothing is lost and nothing is billed twice', async () => {
    const before = await ledgerState();
    await type(block('Keep the ledger', 0));
    expect(pods.history).toEqual(['started', 'exit code 0']);
    expect(await own('statefulset/meterfeed')).toBe(false);
    expect(await exists('clusterroles', '--selector=app.kubernetes.io/name=meterfeed')).toBe(false);
    for (const kept of [CLAIM, `secret/${DESTINATION}`]) expect(await own(kept)).toBe(true);
    expect(await exists('billingdestination', DESTINATION)).toBe(true);
    expect(await exists('meteringpolicy', 'default')).toBe(true);
    await delay(2.5 * WINDOW_MS);

    await install();
    expect(await volumeDirectory(cluster.kubectl)).toBe(directory);
    await windowsPass(1);
    await expectSameLedger(before);
    expectBilledOnce();
  });

  test('without the custom resources: a destination resumes at its retired cursor', async () => {
    const before = await ledgerState();
    await type(block('Keep the ledger', 1));
    expect(await exists('crd', '--selector=app.kubernetes.io/name=meterfeed')).toBe(false);
    expect(await own(CLAIM)).toBe(true);

    await install();
    await addDestination();
    await windowsPass(1);
    expect(await volumeDirectory(cluster.kubectl)).toBe(directory);
    await expectSameLedger(before);
    expectBilledOnce();
  });

  test('forgetting everything: it does not hang, and nothing is left', async () => {
    await type(block('Delete everything', 0));
    expect(await exists('namespace', OPERATOR_NAMESPACE)).toBe(false);
    await expect.poll(() => existsSync(directory), PATIENCE).toBe(false);
    const left = await cluster.kubectl([
      'get',
      'crd,clusterrole,clusterrolebinding',
      '--selector=app.kubernetes.io/name=meterfeed',
    ]);
    expect(left).toBe('');
  });

  test('a destination that waits for an operator which is gone can be let go', async () => {
    await type(INSTALL);
    await vi.waitFor(() => expect(pods.address).toBeDefined(), PATIENCE);
    await addDestination();
    await expect.poll(() => finalizers(cluster.kubectl), PATIENCE).toContain('meterfeed.io/cursor');
    await type(block('Keep the ledger', 0));
    const deleting = type('kubectl delete billingdestinations --all');
    await expect
      .poll(
        () => cluster.kubectl(['get', 'bdest', '-o', 'jsonpath={..deletionTimestamp}']),
        PATIENCE,
      )
      .not.toBe('');
    expect(await exists('billingdestination', DESTINATION)).toBe(true);
    await type(block('When it hangs', 0));
    await deleting;
    expect(await exists('billingdestination', DESTINATION)).toBe(false);
  });
});

type Kubectl = (args: readonly string[]) => Promise<string>;

/** Where the volume of the claim is on this machine. */
async function volumeDirectory(kubectl: Kubectl): Promise<string> {
  const volume = ['--namespace', OPERATOR_NAMESPACE, CLAIM, '-o', 'jsonpath={.spec.volumeName}'];
  const name = await kubectl(['get', ...volume]);
  return kubectl(['get', 'persistentvolume', name, '-o', 'jsonpath={.spec.hostPath.path}']);
}

/** Of every volume there is. */
async function volumeDirectories(kubectl: Kubectl): Promise<readonly string[]> {
  const args = ['get', 'persistentvolumes', '-o', 'jsonpath={.items[*].spec.hostPath.path}'];
  return (await kubectl(args)).split(' ').filter((path) => path !== '');
}

function finalizers(kubectl: Kubectl): Promise<string> {
  return kubectl(['get', 'bdest', DESTINATION, '-o', 'jsonpath={.metadata.finalizers}']);
}

/** One of the shell blocks of a section of the guide. */
function block(section: string, index: number): string {
  const text = readFileSync(join(ROOT, GUIDE), 'utf8');
  const [, rest] = text.split(`## ${section}\n`);
  const [body = ''] = (rest ?? '').split(/^##/m);
  const blocks = [...body.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, commands]) => commands);
  const commands = blocks[index];
  if (commands === undefined) throw new Error(`${GUIDE}: ${section}: no block ${index}`);
  return commands;
}

const SETTINGS = {
  CLUSTER_NAME: 'local',
  REGION: 'local',
  COLLECTION_INTERVAL: '10s',
  CPU_MEMORY_BASIS: 'requests',
};

const STORAGE_CLASS = {
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata: {
    name: 'directories',
    annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' },
  },
  provisioner: HOST_PATH_PROVISIONER,
  reclaimPolicy: 'Delete',
};

/** One tenant cluster, whose volume is billed in every window. */
const TENANT: readonly object[] = [
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'tenant-acme' } },
  {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'acme', namespace: 'tenant-acme', labels: { app: 'vcluster' } },
    spec: {
      serviceName: 'acme',
      selector: { matchLabels: { app: 'vcluster' } },
      template: {
        metadata: { labels: { app: 'vcluster' } },
        spec: { containers: [{ name: 'control-plane', image: 'example.com/vcluster' }] },
      },
    },
  },
  {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'data', namespace: 'tenant-acme' },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '10Gi' } } },
  },
];
