import pLimit from 'p-limit';
import type { SettingsStore, TenantApiSettings } from '../settings/settings.ts';
import type { Discovery } from '../discovery/discovery.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { linkAbort, untilAborted } from '../kubernetes/abort.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { AddressLookup } from '../outbound/address-guard.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { TimeSlice } from '../telemetry/time-slice.ts';
import { compareBytewise } from '../model/bytewise.ts';
import { createKubeconfigSource, type KubeconfigSource } from './kubeconfig/kubeconfig-source.ts';
import { createOpenKubeconfig, type OpenKubeconfig } from './kubeconfig/open-kubeconfig.ts';
import { ExternalNames } from './kubeconfig/external-names.ts';
import { KubeconfigSecrets } from './kubeconfig/kubeconfig-secrets.ts';
import { KubeconfigFollower } from './kubeconfig-follower.ts';
import type { MissingKubeconfig, TenantApi } from './tenant-api.ts';

interface TenantApiAccessOptions {
  /** To the host's API server, for the Secrets and the Services. */
  readonly connection: Pick<Connection, 'request' | 'stream' | 'kubeConfig'>;
  /** The namespaces that are watched; empty means all. */
  readonly watchNamespaces: readonly string[];
  readonly discovery: Pick<Discovery, 'clusters' | 'subscribe'>;
  readonly settings: Pick<SettingsStore, 'current' | 'subscribe'>;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  /** For tests: how names become addresses. */
  readonly lookup?: AddressLookup;
}

/** Kubeconfigs read at the same time, so that a fleet does not fall upon the API server at once. */
const READS_AT_ONCE = 8;
/** From one question for a single Secret to the next, over all tenant clusters, once all were asked for. */
const BETWEEN_QUESTIONS_MS = 2_000;

/** A tenant cluster that is followed, and how to leave it. */
interface Followed {
  readonly follower: KubeconfigFollower;
  readonly leave: () => void;
  readonly ended: Promise<void>;
}

/**
 * Which tenant APIs can be talked to: for every tenant cluster that discovery finds, its kubeconfig is
 * looked for, read by the allow-list and turned into a connection with bounds of its own
 * (docs/how-to/private-nodes.md#what-a-kubeconfig-may-say). What has none
 * is listed with the reason.
 */
export class TenantApiAccess {
  readonly #options: TenantApiAccessOptions;
  readonly #secrets: KubeconfigSecrets;
  readonly #externalNames: ExternalNames;
  readonly #source: KubeconfigSource;
  readonly #open: OpenKubeconfig;
  readonly #limit = pLimit(READS_AT_ONCE);
  readonly #slice: TimeSlice;
  readonly #listeners = new Set<() => void>();
  readonly #followed = new Map<string, Followed>();
  #announced = false;

  constructor(options: TenantApiAccessOptions) {
    const { connection, clock, lookup } = options;
    this.#options = options;
    this.#slice = new TimeSlice(clock);
    this.#secrets = new KubeconfigSecrets({
      ...options,
      onChange: (namespace) => this.#secretChanged(namespace),
    });
    this.#source = createKubeconfigSource({
      connection,
      secrets: this.#secrets,
      settings: () => this.#settings,
    });
    this.#externalNames = new ExternalNames(options);
    this.#open = createOpenKubeconfig({
      externalName: (namespace, name) => this.#externalNames.of(namespace, name),
      allowedHosts: () => this.#settings.allowedHosts,
      hostApi: addressOf(connection),
      now: () => clock.now(),
      lookup,
    });
  }

  get #settings(): TenantApiSettings {
    return this.#options.settings.current().tenantApi;
  }

  /** Those with an accepted kubeconfig, whether or not they answer. */
  list(): readonly TenantApi[] {
    return this.#followers().flatMap(({ api }) => api ?? []);
  }

  /** Those without, by tenant cluster. Whether it is a failure that nobody gave one depends on whether it has own nodes. */
  missing(): readonly MissingKubeconfig[] {
    return this.#followers().flatMap(({ missing }) => missing ?? []);
  }

  /** Calls the listener after every change of {@link list} or {@link missing}; returns the end of the subscription. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Follows discovery, the secrets and the files until the signal aborts; closes its connections then. */
  async run(signal: AbortSignal): Promise<void> {
    const { discovery, settings } = this.#options;
    const review = (): void => {
      const { enabled, kubeconfigSecret } = this.#settings;
      this.#secrets.follow(enabled ? kubeconfigSecret : undefined, signal);
      this.#externalNames.follow(enabled, signal);
      this.#reconcile(enabled ? discovery.clusters() : [], signal);
    };
    const endings = [
      discovery.subscribe(review),
      settings.subscribe((next, previous) => {
        if (next.tenantApi === previous.tenantApi) return;
        for (const { follower } of this.#followed.values()) follower.reconsider();
        review();
      }),
    ];
    review();
    await untilAborted(signal);
    for (const end of endings) end();
    await Promise.all([...this.#followed.values()].map(({ ended }) => ended));
    this.#followed.clear();
  }

  #followers(): readonly KubeconfigFollower[] {
    return [...this.#followed]
      .toSorted(([a], [b]) => compareBytewise(a, b))
      .map(([, { follower }]) => follower);
  }

  #reconcile(clusters: readonly TenantCluster[], signal: AbortSignal): void {
    if (signal.aborted) return;
    const wanted = new Map(clusters.filter(mayHaveApi).map((cluster) => [cluster.id, cluster]));
    for (const [id, { leave }] of this.#followed) {
      if (wanted.has(id)) continue;
      this.#followed.delete(id);
      leave();
    }
    for (const [id, cluster] of wanted) {
      const known = this.#followed.get(id);
      if (known === undefined) this.#followed.set(id, this.#follow(cluster, signal));
      else known.follower.update(cluster);
    }
    this.#announce();
  }

  #follow(cluster: TenantCluster, signal: AbortSignal): Followed {
    const link = linkAbort(signal);
    const follower = new KubeconfigFollower({
      ...this.#options,
      cluster,
      source: this.#source,
      open: this.#open,
      limit: this.#limit,
      slice: this.#slice,
      queryMs: () => this.#followed.size * BETWEEN_QUESTIONS_MS,
      onChange: () => this.#announce(),
    });
    return { follower, leave: link.abort, ended: follower.run(link.signal).finally(link.release) };
  }

  #secretChanged(namespace: string | undefined): void {
    for (const { follower } of this.#followed.values()) {
      if (namespace === undefined || follower.namespace === namespace) follower.pollAgain();
    }
  }

  /** Listeners hear once of changes that follow each other at once. */
  #announce(): void {
    if (this.#announced) return;
    this.#announced = true;
    setImmediate(() => {
      this.#announced = false;
      for (const listener of this.#listeners) listener();
    });
  }
}

/** Of other kinds than vCluster only those with nodes of their own: what the others run is on the host. */
export function mayHaveApi({ excluded, source, nodeMode }: TenantCluster): boolean {
  if (excluded) return false;
  return source === 'workload' || source === 'external' || nodeMode === 'private';
}

/** `host:port` of an API server, an IPv6 address in brackets. */
function addressOf({ kubeConfig }: Pick<Connection, 'kubeConfig'>): string {
  const server = kubeConfig.getCurrentCluster()?.server ?? '';
  if (!URL.canParse(server)) return '';
  const { hostname, port, protocol } = new URL(server);
  return `${hostname}:${port || (protocol === 'https:' ? '443' : '80')}`;
}
