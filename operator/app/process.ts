import packageJson from '../../package.json' with { type: 'json' };
import type { Environment } from '../settings/load-environment.ts';
import type { SettingsStore } from '../settings/settings.ts';
import { type ClusterAccess, inClusterNamespace } from '../kubernetes/kube-config.ts';
import type { AdjustableLogger } from '../telemetry/create-logger.ts';

/** The operator's version, in status, metrics and the User-Agent header. */
export const VERSION: string = packageJson.version;

/** Where the operator's objects live when it runs outside of a cluster. */
const DEFAULT_NAMESPACE = 'meterfeed-system';

/** KUBECONFIG when it is set, else the service account of the pod. */
export function clusterAccess(environment: Environment): ClusterAccess {
  const path = environment['KUBECONFIG'];
  if (path !== undefined && path !== '') return { kind: 'file', path };
  return {
    kind: 'in-cluster',
    host: environment['KUBERNETES_SERVICE_HOST'] ?? '',
    port: environment['KUBERNETES_SERVICE_PORT'] ?? '443',
  };
}

/** As {@link clusterAccess}, for a hub, which may do without: undefined where there is neither KUBECONFIG nor a service account. */
export function hubClusterAccess(environment: Environment): ClusterAccess | undefined {
  const access = clusterAccess(environment);
  return access.kind === 'file' || inClusterNamespace() !== undefined ? access : undefined;
}

/** The operator's own namespace: its Lease, and the only Secrets that destinations may name. */
export function ownNamespace(environment: Environment): string {
  return environment['POD_NAMESPACE'] || inClusterNamespace() || DEFAULT_NAMESPACE;
}

/** Which process this is: POD_NAME, else the name of this machine, which is that of the pod as a rule. */
export function ownInstance(environment: Environment, machine: string): string {
  return environment['POD_NAME'] || machine;
}

/**
 * The log follows `logLevel` of the MeteringPolicy while the operator runs, and falls back to LOG_LEVEL
 * when the policy says nothing. Each change is logged, whatever the level.
 */
export function followLogLevel(settings: SettingsStore, logger: AdjustableLogger): void {
  settings.subscribe((next, previous) => {
    const { level } = next.log;
    if (level === previous.log.level) return;
    logger.setLevel('info');
    logger.info(`[controller] log level: ${level}`);
    logger.setLevel(level);
  });
}

/** A terminal and a supervisor may both tell a process to stop; only what comes later is impatience. */
const SAME_REQUEST_MS = 2_000;

/** Aborted by SIGINT or SIGTERM; another one of them, seconds later, ends the process at once. */
export function stopSignal(): AbortSignal {
  const stop = new AbortController();
  let requestedAt = 0;
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, () => {
      if (!stop.signal.aborted) requestedAt = performance.now();
      else if (performance.now() - requestedAt > SAME_REQUEST_MS) process.exit(130);
      stop.abort();
    });
  }
  return stop.signal;
}
