import type { Connection } from '../kubernetes/connection.ts';
import { inClusterNamespace } from '../kubernetes/kube-config.ts';
import { describeFailure } from '../kubernetes/outcome.ts';
import { resourcePath } from '../kubernetes/resource.ts';
import { isRecord } from '../model/is-record.ts';

export interface OwnSecretsOptions {
  readonly connection: Connection;
  readonly namespace: string;
  /** The name of the pod, if this process runs in one. */
  readonly instance: string;
  /**
   * False if this process runs outside of the cluster and so uses none of its Secrets. By default
   * the mounted service account decides.
   */
  readonly inPod?: boolean;
}

/** The operator's own Secrets. `failed` while its pod is unreadable; `reason` is one line. */
export type OwnSecretsRead =
  | { readonly kind: 'known'; readonly names: ReadonlySet<string> }
  | { readonly kind: 'failed'; readonly reason: string };

/**
 * Reads the names of the Secrets that configure the operator itself: those that its pod names in
 * variables, volumes and pull secrets. A pod's spec never changes them, so they are read once
 * (docs/explanation/security.md#d-4).
 */
export class OwnSecrets {
  readonly #options: OwnSecretsOptions;
  readonly #inPod: boolean;
  #known: OwnSecretsRead | undefined;

  constructor(options: OwnSecretsOptions) {
    this.#options = options;
    this.#inPod = options.inPod ?? inClusterNamespace() !== undefined;
  }

  async read(signal: AbortSignal): Promise<OwnSecretsRead> {
    if (this.#known !== undefined) return this.#known;
    const { connection, namespace, instance } = this.#options;
    const path = resourcePath({ group: '', version: 'v1', plural: 'pods', namespace }, instance);
    const outcome = await connection.request(path, { signal });
    const isAbsent = outcome.kind === 'status' && outcome.code === 404;
    const isRefused = outcome.kind === 'status' && outcome.code === 403;
    if (outcome.kind === 'ok' || (!this.#inPod && (isAbsent || isRefused))) {
      this.#known = {
        kind: 'known',
        names: outcome.kind === 'ok' ? secretsNamedBy(outcome.body) : new Set(),
      };
      return this.#known;
    }
    const fix = isAbsent
      ? 'set POD_NAME to the name of the pod, as config/operator does'
      : 'allow the operator to get pods in its own namespace, as config/rbac does';
    const reason = `pod "${instance}", which names the operator's own Secrets: ${describeFailure(outcome)}; ${fix}`;
    return { kind: 'failed', reason };
  }
}

/**
 * Returns the names in all fields about Secrets: `secretKeyRef`, `secretRef`, `secretName`,
 * `imagePullSecrets`.
 */
function secretsNamedBy(value: unknown): ReadonlySet<string> {
  const names = new Set<string>();
  const visit = (field: string, found: unknown): void => {
    const isSecret = /secret/i.test(field);
    if (Array.isArray(found)) for (const one of found) visit(field, one);
    else if (typeof found === 'string' && /secretName$/i.test(field)) names.add(found);
    else if (isRecord(found)) {
      if (isSecret && typeof found['name'] === 'string') names.add(found['name']);
      for (const [key, inner] of Object.entries(found)) visit(key, inner);
    }
  };
  visit('', isRecord(value) ? value['spec'] : undefined);
  return names;
}
