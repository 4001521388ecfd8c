import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';

/** Source of the address and the credentials of an API server. */
export type ClusterAccess =
  | { readonly kind: 'file'; readonly path: string; readonly context?: string }
  | {
      readonly kind: 'in-cluster';
      /** KUBERNETES_SERVICE_HOST. */
      readonly host: string;
      /** KUBERNETES_SERVICE_PORT. */
      readonly port: string;
      /** Where the kubelet mounts the service account. */
      readonly serviceAccountDirectory?: string;
    };

export type KubeConfigOutcome =
  | { readonly kind: 'loaded'; readonly kubeConfig: KubeConfig }
  /** `reason` names the place and how to fix it; it never quotes the file's content. */
  | { readonly kind: 'invalid'; readonly reason: string };

const SERVICE_ACCOUNT_DIRECTORY = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Reads the operator's kubeconfig, or makes one from the service account of its pod. */
export function loadKubeConfig(access: ClusterAccess): KubeConfigOutcome {
  return access.kind === 'file'
    ? fromFile(access.path, access.context)
    : fromServiceAccount(access);
}

/** The namespace that the operator's pod runs in; undefined outside a cluster. */
export function inClusterNamespace(
  serviceAccountDirectory = SERVICE_ACCOUNT_DIRECTORY,
): string | undefined {
  try {
    return readFileSync(join(serviceAccountDirectory, 'namespace'), 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}

function fromFile(path: string, context: string | undefined): KubeConfigOutcome {
  const kubeConfig = new KubeConfig();
  try {
    kubeConfig.loadFromFile(path);
  } catch (error) {
    return invalid(path, describeLoadFailure(error));
  }
  if (context !== undefined) kubeConfig.setCurrentContext(context);
  const name = kubeConfig.getCurrentContext();
  if (!name) return invalid(path, 'it names no current context; set current-context');
  if (kubeConfig.getContextObject(name) === null) {
    return invalid(path, `it has no context "${name}"; choose one of those it lists`);
  }
  const cluster = kubeConfig.getCurrentCluster();
  if (cluster === null) {
    return invalid(path, `context "${name}" names a cluster that is not in the file`);
  }
  if (!URL.canParse(cluster.server)) {
    return invalid(path, `the server address of cluster "${cluster.name}" is not a URL`);
  }
  if (cluster.proxyUrl?.startsWith('socks')) {
    return invalid(path, `cluster "${cluster.name}" uses a SOCKS proxy; only HTTP proxies work`);
  }
  return { kind: 'loaded', kubeConfig };
}

/** A parser's message may quote a line of the file, and lines of this file are credentials. */
function describeLoadFailure(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string'
    ? `it cannot be read (${code}); check the path and its permissions`
    : 'it is not a valid kubeconfig; check it with `kubectl config view`';
}

function invalid(path: string, problem: string): KubeConfigOutcome {
  return { kind: 'invalid', reason: `kubeconfig: ${problem}: "${path}"` };
}

function fromServiceAccount(
  access: Extract<ClusterAccess, { kind: 'in-cluster' }>,
): KubeConfigOutcome {
  const directory = access.serviceAccountDirectory ?? SERVICE_ACCOUNT_DIRECTORY;
  // A bare IPv6 address needs brackets in a URL.
  const host = access.host.includes(':') ? `[${access.host}]` : access.host;
  const server = `https://${host}:${access.port}`;
  if (!access.host || !URL.canParse(server)) {
    return {
      kind: 'invalid',
      reason: `in-cluster address: not a URL; outside a cluster set KUBECONFIG: "${server}"`,
    };
  }
  const kubeConfig = new KubeConfig();
  kubeConfig.loadFromClusterAndUser(
    { name: 'in-cluster', server, caFile: join(directory, 'ca.crt'), skipTLSVerify: false },
    {
      name: 'service-account',
      // Reads the token again after the kubelet renews it.
      authProvider: { name: 'tokenFile', config: { tokenFile: join(directory, 'token') } },
    },
  );
  return { kind: 'loaded', kubeConfig };
}
