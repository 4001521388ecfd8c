import { generateKeyPairSync } from 'node:crypto';
import { rm, symlink } from 'node:fs/promises';
import { findBinaries } from '../control-plane/binaries.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import { endRemembered } from '../processes/pid-file.ts';
import { ensurePrivateNodeClusters } from '../simulator/private-nodes.ts';
import { startSimulator } from '../simulator/simulator.ts';
import type { ApiToken } from './api-token.ts';
import { applyCustomResources, applyPolicy } from './custom-resources.ts';
import { createKubectl, findKubectl } from '../control-plane/kubectl.ts';
import { claimDirectory } from './claim-directory.ts';
import { LOCAL_SECRET, startLocalBilling } from './local-billing.ts';
import { GATEWAY_POLICY, runGateway } from './local-gateway.ts';
import { startLocalTelemetry } from './local-telemetry.ts';
import { PEOPLES_PORT } from './operator-process.ts';
import { type SupervisedOperator, superviseOperator } from './operator-supervisor.ts';
import type { RunFiles } from './run-directory.ts';

export interface LocalCloudOptions {
  readonly files: RunFiles;
  readonly progress: (line: string) => void;
  /** Aborting it ends the start, and everything started so far. */
  readonly signal: AbortSignal;
  /** Of the operator's API. */
  readonly apiToken: ApiToken;
  /** Stands in for `operator/main.ts` in tests. */
  readonly operatorProgram?: string;
}

export interface LocalCloud {
  /** The page of the stand-in for Lago that shows what would be invoiced. */
  readonly invoices: string;
  /** A Prometheus server that scrapes the simulated cloud; undefined where none is installed. */
  readonly prometheus: string | undefined;
  /** Started again when it ends. */
  readonly operator: SupervisedOperator;
  /** Resolves with the first of the control planes' processes that ends unasked, and how. */
  readonly failed: Promise<string>;
  /** Ends everything in order: AI gateway, operator, Prometheus, simulator, Lago, receiver, API servers, etcd. */
  stop(): Promise<void>;
}

/**
 * Brings up the control planes, the simulated cloud, the receiver, a stand-in for Lago, the operator and a simulated AI
 * gateway, each once what it needs is there. What an earlier run left in the directory goes on, and processes that a kill left
 * over are ended first. Rejects after undoing what was started.
 */
export async function startLocalCloud(options: LocalCloudOptions): Promise<LocalCloud> {
  const { files, progress, signal } = options;
  const started = new AsyncDisposableStack();
  started.defer(await claimDirectory(files, 'make run'));
  try {
    await endRemembered(files.operatorPid, 20_000);
    const { plane, tenantPlane, kubectlProgram } = await bringUpControlPlanes(files, progress);
    started.defer(plane.stop);
    started.defer(tenantPlane.stop);
    signal.throwIfAborted();

    const { receiver, lago } = await startLocalBilling(options, started);
    progress('applying the custom resource definitions and samples');
    const kubectl = createKubectl(kubectlProgram, files.kubeconfig);
    await applyCustomResources(kubectl, { url: receiver.url, secret: LOCAL_SECRET }, lago);
    await applyPolicy(kubectl, {
      // Where the tenant cluster with nodes of its own has its API server here.
      tenantAPI: { allowedHosts: ['127.0.0.1'] },
      ingest: GATEWAY_POLICY,
    });
    signal.throwIfAborted();

    progress('simulating a small GPU cloud');
    const simulator = await startSimulator({
      credentials: plane.credentials,
      truthFile: files.truth,
      log: progress,
    });
    started.defer(() => simulator.stop());
    await ensurePrivateNodeClusters(plane.credentials, tenantPlane.credentials, signal);
    signal.throwIfAborted();

    const { credentials } = plane;
    const telemetry = await startLocalTelemetry({ files, credentials, progress, signal });
    started.defer(() => telemetry.stop());

    progress('starting the operator');
    const operator = await superviseOperator({
      files,
      progress,
      kubeconfig: files.kubeconfig,
      env: { ...LOCAL_SETTINGS, ...accessSettings(options.apiToken), ...telemetry.env },
      signal,
      program: options.operatorProgram,
      preferredPort: PEOPLES_PORT,
    });
    started.defer(() => operator.stop());
    signal.throwIfAborted();
    started.defer(startGateway(operator.address, options.apiToken, progress));
    return {
      operator,
      invoices: `${lago.url}/`,
      prometheus: telemetry.url,
      failed: Promise.race([plane.failed, tenantPlane.failed]),
      stop: () => started.disposeAsync(),
    };
  } catch (error) {
    await started.disposeAsync();
    throw error;
  }
}

const REQUEST_EVERY_MS = 300;

/** Starts the simulated AI gateway, and returns how to stop it. */
function startGateway(
  address: string,
  token: ApiToken,
  log: (line: string) => void,
): () => Promise<void> {
  const stopping = new AbortController();
  const done = runGateway({
    address,
    token: token.value,
    everyMs: REQUEST_EVERY_MS,
    now: () => Date.now(),
    random: () => Math.random(),
    log,
    signal: stopping.signal,
  });
  return async () => {
    stopping.abort();
    await done;
  };
}

const LOCAL_SETTINGS: Readonly<Record<string, string>> = {
  CLUSTER_NAME: 'local',
  REGION: 'local',
  PLATFORM_CLUSTER: 'local',
  COLLECTION_INTERVAL: '10s',
  RECONCILE_INTERVAL: '10s',
  // Who has used up a prepaid balance is stopped.
  ENFORCEMENT_MODE: 'enforce',
};

/** The token, and a key of tenants' tokens for this run. */
function accessSettings(token: ApiToken): Readonly<Record<string, string>> {
  const access: Record<string, string> = token.isOwn ? { API_TOKEN: token.value } : {};
  const { PORTAL_KEYS: keys, PORTAL_KEYS_FILE: file } = process.env;
  if (keys !== undefined || file !== undefined) return access;
  const { privateKey } = generateKeyPairSync('ed25519');
  return {
    ...access,
    PORTAL_KEYS: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

async function bringUpControlPlanes(
  files: RunFiles,
  progress: (line: string) => void,
): Promise<{
  readonly plane: ControlPlane;
  readonly tenantPlane: ControlPlane;
  readonly kubectlProgram: string;
}> {
  const binaries = await findBinaries({ assets: process.env['KUBEBUILDER_ASSETS'], progress });
  await rm(files.kubectl, { force: true });
  const kubectl = await findKubectl(binaries.kubectl);
  await symlink(kubectl, files.kubectl);
  progress('starting etcd and kube-apiserver, for the host and for one tenant cluster');
  const { directory, tenantPlane: own } = files;
  const plane = await startControlPlane({ binaries, directory, ephemeral: false });
  try {
    const tenantPlane = await startControlPlane({ binaries, directory: own, ephemeral: false });
    return { plane, tenantPlane, kubectlProgram: kubectl };
  } catch (error) {
    await plane.stop();
    throw error;
  }
}
