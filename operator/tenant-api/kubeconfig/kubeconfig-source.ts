import { open } from 'node:fs/promises';
import type { TenantApiSettings } from '../../settings/settings.ts';
import { Secret } from '../../model/secret.ts';
import type { KubeconfigSecret, TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { describeFailure, type RequestFailure } from '../../kubernetes/outcome.ts';
import { resourcePath } from '../../kubernetes/resource.ts';
import {
  type KubeconfigRead,
  type KubeconfigSecrets,
  readSecretData,
} from './kubeconfig-secrets.ts';
import { MOST_KUBECONFIG_BYTES } from './read-kubeconfig.ts';

/** Reads the kubeconfig of a tenant cluster. Never rejects. */
export type KubeconfigSource = (
  cluster: TenantCluster,
  signal: AbortSignal,
) => Promise<KubeconfigRead>;

/** `key` is set if it is known to hold the kubeconfig. */
type RequestedSecret = Pick<KubeconfigSecret, 'namespace' | 'name'> & Partial<KubeconfigSecret>;

const NOT_FOUND = 404;
const FORBIDDEN = 403;

/**
 * Returns a function that reads the kubeconfig of a tenant cluster
 * (docs/how-to/private-nodes.md#leave-a-read-only-kubeconfig):
 * 1. An external tenant cluster: the mounted file.
 * 2. Any other: the Secret TENANT_KUBECONFIG_SECRET in its namespace.
 * 3. With TENANT_ADMIN_FALLBACK, if that is missing: the admin's Secret.
 * Secrets of the one name are watched. Where that is forbidden, and for the admin's Secrets, each
 * is requested by name (docs/explanation/security.md#d-16).
 */
export function createKubeconfigSource(options: {
  /** To the host's API server. */
  readonly connection: Pick<Connection, 'request'>;
  readonly secrets: Pick<KubeconfigSecrets, 'read'>;
  readonly settings: () => Pick<TenantApiSettings, 'kubeconfigSecret' | 'adminFallback'>;
}): KubeconfigSource {
  const { connection, secrets, settings } = options;

  async function queryFor(
    { namespace, name, key }: RequestedSecret,
    signal: AbortSignal,
  ): Promise<KubeconfigRead> {
    const resource = { group: '', version: 'v1', plural: 'secrets', namespace };
    const outcome = await connection.request(resourcePath(resource, name), { signal });
    const where = `Secret "${namespace}/${name}"`;
    const read =
      outcome.kind === 'ok'
        ? readSecretData(outcome.body, where, key === undefined ? undefined : [key])
        : notRead(outcome, where);
    return { ...read, requestedByName: true };
  }

  return async (cluster, signal) => {
    if (cluster.kubeconfigFile !== undefined) return readFile(cluster.kubeconfigFile);
    const { kubeconfigSecret, adminFallback } = settings();
    const { home: namespace = cluster.namespace } = cluster;
    const watched = await secrets.read(namespace, kubeconfigSecret, signal);
    const own = watched ?? (await queryFor({ namespace, name: kubeconfigSecret }, signal));
    // Without anything to meter, an admin's credential is not read.
    const falls = adminFallback && cluster.nodeMode !== 'shared';
    const isGiven = own.kind !== 'absent' && own.kind !== 'refused';
    if (isGiven || !falls) return own;
    const written = cluster.kubeconfigSecret ?? { namespace, name: `vc-${cluster.name}` };
    const admin = await queryFor(written, signal);
    return admin.kind === 'found' ? admin : { ...own, requestedByName: true };
  };
}

function notRead(outcome: RequestFailure, where: string): KubeconfigRead {
  if (outcome.kind === 'status' && outcome.code === NOT_FOUND) {
    return { kind: 'absent', reason: `${where}: missing` };
  }
  if (outcome.kind === 'status' && outcome.code === FORBIDDEN) {
    return { kind: 'unknown', reason: `${where}: forbidden; allow the operator to get it` };
  }
  return { kind: 'unknown', reason: `${where}: ${describeFailure(outcome)}` };
}

async function readFile(path: string): Promise<KubeconfigRead> {
  const where = `file "${path}"`;
  try {
    await using file = await open(path);
    // A pipe would block, and a directory cannot be read.
    if (!(await file.stat()).isFile()) return { kind: 'refused', reason: `${where}: not a file` };
    const buffer = Buffer.alloc(MOST_KUBECONFIG_BYTES + 1);
    const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
    return { kind: 'found', text: new Secret(buffer.toString('utf8', 0, bytesRead)), where };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable';
    return { kind: code === 'ENOENT' ? 'absent' : 'unknown', reason: `${where}: ${code}` };
  }
}
