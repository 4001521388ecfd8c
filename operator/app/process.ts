import packageJson from '../../package.json' with { type: 'json' };
import type { Environment } from '../settings/load-environment.ts';
import type { SettingsStore } from '../settings/settings.ts';
import { type ClusterAccess, inClusterNamespace } from '../kubernetes/kube-config.ts';
import type { AdjustableLogger } from '../telemetry/create-logger.ts';

/** The operator's version, in status, metrics and the User-Agent header. */
export const VERSION: string = packageJson.version;

/** Namespace of the operator's objects when it runs outside a cluster. */
const DEFAULT_NAMESPACE = 'meterfeed-system';

/** Access by KUBECONFIG if it is set, else by the pod's service account. */
export function clusterAccess(environment: Environment): ClusterAccess {
  const path = environment['KUBECONFIG'];
  if (path !== undefined && path !== '') return { kind: 'file', path };
  return {
    kind: 'in-cluster',
    host: environment['KUBERNETES_SERVICE_HOST'] ?? '',
    port: environment['KUBERNETES_SERVICE_PORT'] ?? '443',
  };
}

/**
 * Access of a hub's cluster, see {@link clusterAccess}. Undefined with neither KUBECONFIG nor a
 * service account: a hub needs no cluster.
 */
export function hubClusterAccess(environment: Environment): ClusterAccess | undefined {
  const access = clusterAccess(environment);
  return access.kind === 'file' || inClusterNamespace() !== undefined ? access : undefined;
}

/** The operator's own namespace, with its Lease and the only Secrets that destinations may name. */
export function ownNamespace(environment: Environment): string {
  return environment['POD_NAMESPACE'] || inClusterNamespace() || DEFAULT_NAMESPACE;
}

/** Identity of this process: POD_NAME, else the host name, which in a pod is the pod's name. */
export function ownInstance(environment: Environment, machine: string): string {
  return environment['POD_NAME'] || machine;
}

/**
 * Applies `logLevel` of the MeteringPolicy to the logger, or LOG_LEVEL if the policy sets none.
 * Logs each change at any level.
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

/**
 * A terminal and a supervisor may both send a signal for one stop request. A later signal is a
 * second request.
 */
const SAME_REQUEST_MS = 2_000;

/**
 * Returns a signal that SIGINT or SIGTERM aborts. A second one, more than two seconds later, ends
 * the process at once.
 */
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
