import { linkAbort, untilAborted } from '../../telemetry/abort.ts';
import { createSource } from '../../kubernetes/namespaced-source.ts';
import { describeFailure, type RequestFailure } from '../../kubernetes/outcome.ts';
import type { WatchMeans } from '../../kubernetes/reflector-options.ts';
import { identify } from '../../kubernetes/resource.ts';
import type { Projected, RawObject, Source, SourceHandler } from '../../kubernetes/source.ts';
import { isRecord } from '../../model/is-record.ts';
import { Secret } from '../../model/secret.ts';
import { MOST_KUBECONFIG_BYTES } from './read-kubeconfig.ts';

/** The connection is to the host's API server. */
interface KubeconfigSecretsOptions extends WatchMeans {
  /** Empty means all. */
  readonly watchNamespaces: readonly string[];
  /**
   * Called when the Secret of this namespace was created, changed or deleted. Without a namespace,
   * all may have changed.
   */
  readonly onChange: (namespace?: string) => void;
}

/**
 * The kubeconfig Secrets of all tenant clusters, which share one name. It needs one list and one
 * watch with the field selector `metadata.name`, which RBAC can allow for a single name
 * (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources). It keeps
 * only the kubeconfig of each Secret.
 */
export class KubeconfigSecrets {
  readonly #options: KubeconfigSecretsOptions;
  #watch: SecretsWatch | undefined;

  constructor(options: KubeconfigSecretsOptions) {
    this.#options = options;
  }

  /** Watches only Secrets of this name until the signal aborts; undefined for none. */
  follow(name: string | undefined, signal: AbortSignal): void {
    if (name === this.#watch?.name) return;
    this.#watch?.stop();
    this.#watch = name === undefined ? undefined : new SecretsWatch(name, this.#options, signal);
  }

  /** Returns the Secret's kubeconfig; undefined if it may not be watched: request it by name. */
  async read(
    namespace: string,
    name: string,
    signal: AbortSignal,
  ): Promise<KubeconfigRead | undefined> {
    const { watchNamespaces } = this.#options;
    const covered = watchNamespaces.length === 0 || watchNamespaces.includes(namespace);
    const watch = this.#watch;
    return covered && watch?.name === name ? watch.read(namespace, signal) : undefined;
  }
}

interface SecretView extends Projected {
  /** Tells versions apart, because `read` hides its content. */
  readonly resourceVersion: string;
  readonly read: KubeconfigRead;
}

/** A Secret may have 1 MiB, and a page stays in memory while it is read. */
const PAGE_SIZE = 100;
const FORBIDDEN = 403;

class SecretsWatch {
  readonly name: string;
  readonly #source: Source<SecretView>;
  readonly #link: ReturnType<typeof linkAbort>;
  /** Aborted by the first answer, also by a failure. */
  readonly #answered = new AbortController();
  #isListed = false;
  /** Failure of the last request; undefined after a success. */
  #failure: RequestFailure | undefined;
  #wasForbidden = false;

  constructor(name: string, options: KubeconfigSecretsOptions, signal: AbortSignal) {
    const { connection, watchNamespaces, clock, random, logger, onChange } = options;
    this.name = name;
    this.#link = linkAbort(signal);
    const changed = ({ namespace }: Projected): void => {
      // The first list is awaited elsewhere.
      if (this.#isListed) onChange(namespace);
    };
    const handler: SourceHandler<SecretView> = { upserted: changed, deleted: changed };
    this.#source = createSource<SecretView>({
      connection: {
        request: async (path, requested) => this.#noted(await connection.request(path, requested)),
        stream: async (path, requested) => this.#noted(await connection.stream(path, requested)),
      },
      resource: { group: '', version: 'v1', plural: 'secrets' },
      namespaces: watchNamespaces,
      fieldSelector: `metadata.name=${name}`,
      pageSize: PAGE_SIZE,
      project: viewOf,
      handlers: [handler],
      clock,
      random,
      logger,
    });
    void this.#run(onChange);
  }

  stop(): void {
    this.#link.abort();
  }

  async read(namespace: string, signal: AbortSignal): Promise<KubeconfigRead | undefined> {
    await untilAborted(this.#answered.signal, signal, this.#link.signal);
    const { state } = this.#source.health();
    if (state === 'absent' || (state !== 'synced' && this.#isForbidden)) return undefined;
    const last = this.#source.find(namespace, this.name);
    // During a failure, the last known Secret still counts.
    if (last !== undefined) return last.read;
    const where = `Secret "${namespace}/${this.name}"`;
    if (state === 'synced') return { kind: 'absent', reason: `${where}: missing` };
    const why = this.#failure === undefined ? 'not listed yet' : describeFailure(this.#failure);
    return { kind: 'unknown', reason: `${where}: ${why}` };
  }

  get #isForbidden(): boolean {
    return this.#failure?.kind === 'status' && this.#failure.code === FORBIDDEN;
  }

  async #run(onChange: () => void): Promise<void> {
    const { signal } = this.#link;
    const running = this.#source.run(signal);
    await this.#source.ready(signal).then(
      () => {
        this.#isListed = true;
        this.#answered.abort();
        // Followers that requested by name meanwhile may wait long before the next request.
        if (this.#wasForbidden) onChange();
      },
      () => undefined,
    );
    await running;
    this.#link.release();
  }

  #noted<T extends { readonly kind: 'ok' } | RequestFailure>(outcome: T): T {
    this.#failure = outcome.kind === 'ok' ? undefined : outcome;
    this.#wasForbidden ||= this.#isForbidden;
    if (outcome.kind !== 'ok') this.#answered.abort();
    return outcome;
  }
}

function viewOf(object: RawObject): SecretView | undefined {
  const identity = identify(object);
  if (identity === undefined) return undefined;
  const where = `Secret "${identity.namespace}/${identity.name}"`;
  return { ...identity, read: readSecretData(object, where) };
}

/** Result of a read where a tenant cluster's kubeconfig should be. */
export type KubeconfigRead = (
  | { readonly kind: 'found'; readonly text: Secret; readonly where: string }
  | { readonly kind: 'absent'; readonly reason: string }
  | { readonly kind: 'refused'; readonly reason: string }
  /** Unknown: the request was refused or not answered. */
  | { readonly kind: 'unknown'; readonly reason: string }
) & {
  /**
   * The API server received a separate request for this one. With thousands of tenant clusters that
   * must be rare.
   */
  readonly requestedByName?: true;
};

/** vCluster writes the first key, other tools the others. */
const KEYS = ['config', 'kubeconfig', 'value'] as const;

/** Returns the first non-empty key of a Secret. `where` names the Secret in reasons. */
export function readSecretData(
  secret: unknown,
  where: string,
  keys: readonly string[] = KEYS,
): KubeconfigRead {
  const data: RawObject | undefined =
    isRecord(secret) && isRecord(secret['data']) ? secret['data'] : undefined;
  for (const key of keys) {
    const value = data?.[key];
    if (typeof value !== 'string' || value === '') continue;
    return { kind: 'found', text: decode(value), where };
  }
  return { kind: 'refused', reason: `${where}: none of the keys ${keys.join(', ')}` };
}

/** Decodes one byte more than the limit, so that the reader of kubeconfigs refuses longer ones. */
function decode(base64: string): Secret {
  const enough = Math.ceil((MOST_KUBECONFIG_BYTES + 1) / 3) * 4;
  return new Secret(Buffer.from(base64.slice(0, enough), 'base64').toString('utf8'));
}
