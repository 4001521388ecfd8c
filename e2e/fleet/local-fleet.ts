import { mkdir, rm } from 'node:fs/promises';
import type { LedgerDatabase } from '../../operator/settings/settings.ts';
import { findBinaries } from '../control-plane/binaries.ts';
import { endLeftovers, startControlPlane } from '../control-plane/control-plane.ts';
import { createKubectl, findKubectl } from '../control-plane/kubectl.ts';
import type { ControlPlaneBinaries } from '../control-plane/release.ts';
import type { ApiToken } from '../local/api-token.ts';
import { claimDirectory } from '../local/claim-directory.ts';
import { applyFleetResources } from '../local/custom-resources.ts';
import { LOCAL_SECRET, startLocalBilling } from '../local/local-billing.ts';
import { type SupervisedOperator, superviseOperator } from '../local/operator-supervisor.ts';
import { startTrio } from '../postgres/trio.ts';
import { endRemembered, forgetProcess, rememberProcess } from '../processes/pid-file.ts';
import { startSimulator } from '../simulator/simulator.ts';
import { CLUSTERS, type FleetFiles, HUBS } from './fleet-directory.ts';

export interface LocalFleetOptions {
  readonly files: FleetFiles;
  readonly progress: (line: string) => void;
  /** Aborting it ends the start, and everything started so far. */
  readonly signal: AbortSignal;
  /** Of the APIs of hub and meters. */
  readonly apiToken: ApiToken;
}

export interface LocalFleet {
  /** The processes of the hub, of which one leads. */
  readonly hubs: readonly SupervisedOperator[];
  /** The meters, in the order of {@link CLUSTERS}. */
  readonly meters: readonly SupervisedOperator[];
  /** The page of the stand-in for Lago that shows what would be invoiced. */
  readonly invoices: string;
  /** `postgresql://…`, without a password. */
  readonly database: string;
  /** Resolves with the first process of a control plane that ends unasked, and how. */
  readonly failed: Promise<string>;
  /** Ends everything in order. */
  stop(): Promise<void>;
}

/**
 * Brings up a primary with two standbys, a receiver, a stand-in for Lago, two simulated clusters with a meter each and two
 * processes of a hub. Everything begins again at each start. Rejects after undoing what was started.
 */
export async function startLocalFleet(options: LocalFleetOptions): Promise<LocalFleet> {
  const { files, progress, signal } = options;
  const started = new AsyncDisposableStack();
  started.defer(await claimDirectory(files, 'make run-fleet'));
  try {
    await beginAgain(files);
    progress('starting PostgreSQL: a primary and two standbys, one of which must have every batch');
    const database = await startDatabase(files, started);
    signal.throwIfAborted();
    const { receiver, lago } = await startLocalBilling(options, started);
    const shared = {
      LEDGER_URL: urlOf(database),
      COLLECTION_INTERVAL: '10s',
      ...(options.apiToken.isOwn && { API_TOKEN: options.apiToken.value }),
    };
    const binaries = await findBinaries({ assets: process.env['KUBEBUILDER_ASSETS'], progress });
    const meters: SupervisedOperator[] = [];
    const failures: Promise<string>[] = [];
    for (const { name, region } of CLUSTERS) {
      progress(`cluster ${name}: an API server, a simulated GPU cloud, and a meter`);
      const cluster = await startCluster(options, name, binaries, started);
      failures.push(cluster.failed);
      signal.throwIfAborted();
      const meter = await superviseOperator({
        files: files.of(name),
        kubeconfig: cluster.kubeconfig,
        progress: (line) => progress(`${name}: ${line}`),
        env: {
          ...shared,
          ROLE: 'meter',
          CLUSTER_NAME: name,
          REGION: region,
          RECONCILE_INTERVAL: '10s',
        },
        signal,
      });
      meters.push(meter);
      started.defer(() => meter.stop());
      signal.throwIfAborted();
    }

    progress('the hub, twice: one process leads; they have the database and no cluster');
    const hubs: SupervisedOperator[] = [];
    for (const name of HUBS) {
      // One after the other, so that the first one leads.
      const hub = await superviseOperator({
        files: files.of(name),
        kubeconfig: '',
        progress: (line) => progress(`${name}: ${line}`),
        env: {
          ...shared,
          ROLE: 'hub',
          CLUSTER_NAME: 'hub',
          ADAPTERS: 'webhook,lago',
          DESTINATIONS_START_FROM: 'earliest',
          WEBHOOK_URL: receiver.url,
          WEBHOOK_SECRET: LOCAL_SECRET,
          BILLING_C_API_URL: lago.url,
          BILLING_C_API_KEY: lago.apiKey,
          BILLING_CURRENCY: lago.currency,
        },
        signal,
      });
      hubs.push(hub);
      started.defer(() => hub.stop());
      signal.throwIfAborted();
    }
    return {
      hubs,
      meters,
      invoices: `${lago.url}/`,
      database: urlOf(database),
      failed: Promise.race(failures),
      stop: async () => {
        await Promise.all([...hubs, ...meters].map((operator) => operator.stop()));
        await started.disposeAsync();
      },
    };
  } catch (error) {
    await started.disposeAsync();
    throw error;
  }
}

/** Nothing is left of an earlier run but the token and the ports. */
async function beginAgain(files: FleetFiles): Promise<void> {
  await endFleet(files);
  for (const name of [...CLUSTERS.map((cluster) => cluster.name), ...HUBS]) {
    const { data, directory } = files.of(name);
    await rm(data, { recursive: true, force: true });
    if (CLUSTERS.some((cluster) => cluster.name === name)) {
      await rm(directory, { recursive: true, force: true });
    }
    await mkdir(directory, { recursive: true });
  }
  for (const file of [files.received, files.lago]) await rm(file, { force: true });
}

/** Ends whatever an earlier run has left behind. */
export async function endFleet(files: FleetFiles): Promise<void> {
  const names = [...HUBS, ...CLUSTERS.map(({ name }) => name)];
  for (const name of names) await endRemembered(files.of(name).operatorPid, 20_000);
  for (const { name } of CLUSTERS) await endLeftovers(files.of(name).directory);
  for (const file of files.postgresPids) await endRemembered(file);
}

async function startDatabase(
  files: FleetFiles,
  started: AsyncDisposableStack,
): Promise<LedgerDatabase> {
  const trio = await startTrio({ ownGroup: true });
  started.defer(async () => {
    await trio.close();
    for (const file of files.postgresPids) forgetProcess(file);
  });
  for (const [index, { pid }] of trio.servers().entries()) {
    const file = files.postgresPids[index];
    if (file !== undefined) rememberProcess(file, pid);
  }
  return trio.createDatabase();
}

async function startCluster(
  { files, progress, signal }: LocalFleetOptions,
  name: string,
  binaries: ControlPlaneBinaries,
  started: AsyncDisposableStack,
): Promise<{ readonly kubeconfig: string; readonly failed: Promise<string> }> {
  const own = files.of(name);
  const plane = await startControlPlane({ binaries, directory: own.directory, ephemeral: true });
  started.defer(plane.stop);
  signal.throwIfAborted();
  const kubectl = createKubectl(await findKubectl(binaries.kubectl), own.kubeconfig);
  await applyFleetResources(kubectl);
  signal.throwIfAborted();
  const simulator = await startSimulator({
    credentials: plane.credentials,
    truthFile: own.truth,
    log: (line) => progress(`${name}: ${line}`),
  });
  started.defer(() => simulator.stop());
  return { kubeconfig: own.kubeconfig, failed: plane.failed };
}

function urlOf({ host, port, name, user }: LedgerDatabase): string {
  return `postgresql://${user}@${host}:${port}/${name}?sslmode=disable`;
}
