import { open } from 'node:fs/promises';
import type { TenantApiSettings } from '../../config/settings.ts';
import { Secret } from '../../model/secret.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { describeFailure, type RequestFailure } from '../../kubernetes/outcome.ts';
import { isRecord } from '../../model/is-record.ts';
import { resourcePath } from '../../kubernetes/resource.ts';
import { MOST_KUBECONFIG_BYTES } from './read-kubeconfig.ts';

export type KubeconfigRead =
  | { readonly kind: 'found'; readonly text: Secret; readonly where: string }
  /** There is certainly none. */
  | { readonly kind: 'absent'; readonly reason: string }
  /** Nobody knows: the question was refused or not answered. */
  | { readonly kind: 'unknown'; readonly reason: string };

/** Reads the kubeconfig that is meant for a tenant cluster. Never rejects. */
export type KubeconfigSource = (
  cluster: TenantCluster,
  signal: AbortSignal,
) => Promise<KubeconfigRead>;

export interface KubeconfigSourceOptions {
  /** To the host's API server. */
  readonly connection: Pick<Connection, 'request'>;
  /** The settings in force. */
  readonly settings: () => Pick<TenantApiSettings, 'kubeconfigSecret' | 'adminFallback'>;
}

/** vCluster writes the first; other tools the others. */
const KEYS = ['config', 'kubeconfig', 'value'] as const;
const NOT_FOUND = 404;
const FORBIDDEN = 403;

/**
 * The kubeconfig of a tenant cluster: Secret TENANT_KUBECONFIG_SECRET in its namespace, the admin one
 * with TENANT_ADMIN_FALLBACK where that is missing, or the mounted file of an external one
 * (docs/tenant-apis.md#leave-a-read-only-kubeconfig). A Secret is asked for by its name and never
 * listed (docs/security.md#d-16).
 */
export function createKubeconfigSource(options: KubeconfigSourceOptions): KubeconfigSource {
  const { connection, settings } = options;

  async function readSecret(
    cluster: TenantCluster,
    name: string,
    signal: AbortSignal,
  ): Promise<KubeconfigRead> {
    const { namespace } = cluster;
    const resource = { group: '', version: 'v1', plural: 'secrets', namespace };
    const outcome = await connection.request(resourcePath(resource, name), { signal });
    const where = `Secret "${namespace}/${name}"`;
    return outcome.kind === 'ok' ? textOf(outcome.body, where) : notRead(outcome, where);
  }

  return async (cluster, signal) => {
    if (cluster.kubeconfigFile !== undefined) return readFile(cluster.kubeconfigFile);
    const { kubeconfigSecret, adminFallback } = settings();
    const own = await readSecret(cluster, kubeconfigSecret, signal);
    // An admin's credential is not taken where there is nothing to meter with it.
    const falls = adminFallback && cluster.nodeMode !== 'shared';
    if (own.kind !== 'absent' || !falls) return own;
    const admin = await readSecret(cluster, `vc-${cluster.name}`, signal);
    return admin.kind === 'found' ? admin : own;
  };
}

function textOf(body: unknown, where: string): KubeconfigRead {
  const data = isRecord(body) ? body['data'] : undefined;
  for (const key of KEYS) {
    const value = isRecord(data) ? data[key] : undefined;
    if (typeof value !== 'string' || value === '') continue;
    const text = new Secret(Buffer.from(value, 'base64').toString('utf8'));
    return { kind: 'found', text, where };
  }
  return { kind: 'absent', reason: `${where}: none of the keys ${KEYS.join(', ')}` };
}

function notRead(outcome: RequestFailure, where: string): KubeconfigRead {
  if (outcome.kind === 'status' && outcome.code === NOT_FOUND) {
    return { kind: 'absent', reason: `${where}: missing` };
  }
  if (outcome.kind === 'status' && outcome.code === FORBIDDEN) {
    return { kind: 'unknown', reason: `${where}: forbidden; let the operator get it` };
  }
  return { kind: 'unknown', reason: `${where}: ${describeFailure(outcome)}` };
}

async function readFile(path: string): Promise<KubeconfigRead> {
  const where = `file "${path}"`;
  try {
    await using file = await open(path);
    // A pipe would be waited for, and a directory cannot be read.
    if (!(await file.stat()).isFile()) return { kind: 'absent', reason: `${where}: not a file` };
    const buffer = Buffer.alloc(MOST_KUBECONFIG_BYTES + 1);
    const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
    return { kind: 'found', text: new Secret(buffer.toString('utf8', 0, bytesRead)), where };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable';
    return { kind: code === 'ENOENT' ? 'absent' : 'unknown', reason: `${where}: ${code}` };
  }
}
