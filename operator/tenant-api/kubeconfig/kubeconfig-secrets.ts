import { linkAbort, untilAborted } from '../../kubernetes/abort.ts';
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
  /** The Secret of this namespace has come, changed or gone; without one, those of all may have. */
  readonly onChange: (namespace?: string) => void;
}

/**
 * The kubeconfig Secrets of all tenant clusters, which have one name in common: one list and one watch
 * with the field selector `metadata.name`, which RBAC allows to whoever may list and watch that name
 * (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources). Of each Secret
 * nothing is kept but the kubeconfig.
 */
export class KubeconfigSecrets {
  readonly #options: KubeconfigSecretsOptions;
  #watch: SecretsWatch | undefined;

  constructor(options: KubeconfigSecretsOptions) {
    this.#options = options;
  }

  /** Watches the Secrets of this name until the signal aborts, and those of no other; undefined for none. */
  follow(name: string | undefined, signal: AbortSignal): void {
    if (name === this.#watch?.name) return;
    this.#watch?.stop();
    this.#watch = name === undefined ? undefined : new SecretsWatch(name, this.#options, signal);
  }

  /** Undefined when the Secret has to be asked for by its name: it may not be watched. */
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
  /** What is read hides its content, so that this tells versions apart. */
  readonly resourceVersion: string;
  readonly read: KubeconfigRead;
}

/** Secrets may have 1 MiB, and a page is held whole while it is read. */
const PAGE_SIZE = 100;
const FORBIDDEN = 403;

/** The watch of Secrets of one name. */
class SecretsWatch {
  readonly name: string;
  readonly #source: Source<SecretView>;
  readonly #link: ReturnType<typeof linkAbort>;
  /** The first answer is in, whatever it is. */
  readonly #answered = new AbortController();
  #isListed = false;
  /** Why the last question was refused; undefined once one is answered. */
  #failure: RequestFailure | undefined;
  #wasForbidden = false;

  constructor(name: string, options: KubeconfigSecretsOptions, signal: AbortSignal) {
    const { connection, watchNamespaces, clock, random, logger, onChange } = options;
    this.name = name;
    this.#link = linkAbort(signal);
    const changed = ({ namespace }: Projected): void => {
      // What the first list brings is being waited for.
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
    const held = this.#source.find(namespace, this.name);
    // In trouble, what was there last is believed to be there still.
    if (held !== undefined) return held.read;
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
        // Whoever asked by name meanwhile may wait long before asking again.
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

/** What was found where the kubeconfig of a tenant cluster should be. */
export type KubeconfigRead = (
  | { readonly kind: 'found'; readonly text: Secret; readonly where: string }
  /** Nobody gave one. */
  | { readonly kind: 'absent'; readonly reason: string }
  /** Something was given that is none. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** Nobody knows: the question was refused or not answered. */
  | { readonly kind: 'unknown'; readonly reason: string }
) & {
  /** The API server was asked for this one alone, which thousands must not be often. */
  readonly asked?: true;
};

/** vCluster writes the first; other tools the others. */
const KEYS = ['config', 'kubeconfig', 'value'] as const;

/** The first of the keys of a Secret that has something. `where` names the Secret in reasons. */
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

/** No more than shows that there is too much: the reader of kubeconfigs refuses it then. */
function decode(base64: string): Secret {
  const enough = Math.ceil((MOST_KUBECONFIG_BYTES + 1) / 3) * 4;
  return new Secret(Buffer.from(base64.slice(0, enough), 'base64').toString('utf8'));
}
