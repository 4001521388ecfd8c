import pLimit from 'p-limit';
import type { SettingsStore, TenantApiSettings } from '../settings/settings.ts';
import type { Discovery } from '../discovery/discovery.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { linkAbort, untilAborted } from '../telemetry/abort.ts';
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

/** Most kubeconfigs read at the same time, so that a fleet does not overload the API server. */
const READS_AT_ONCE = 8;
/** Pause between two requests of single Secrets, over all tenant clusters, after the first pass. */
const BETWEEN_QUESTIONS_MS = 2_000;

/** A followed tenant cluster, and how to stop following it. */
interface Followed {
  readonly follower: KubeconfigFollower;
  readonly leave: () => void;
  readonly ended: Promise<void>;
}

/**
 * Connections to the APIs of tenant clusters. For each discovered tenant cluster it finds the
 * kubeconfig, checks it against the allow-list, and makes a connection with its own limits
 * (docs/how-to/private-nodes.md#what-a-kubeconfig-may-say). Tenant clusters without an accepted
 * kubeconfig are listed with the reason.
 */
export class TenantApiAccess {
  readonly #options;
  readonly #secrets: KubeconfigSecrets;
  readonly #externalNames: ExternalNames;
  readonly #source: KubeconfigSource;
  readonly #open: OpenKubeconfig;
  readonly #limit = pLimit(READS_AT_ONCE);
  readonly #slice: TimeSlice;
  readonly #listeners = new Set<() => void>();
  readonly #followed = new Map<string, Followed>();
  #announced = false;

  constructor(options: {
    /** Connection to the host's API server, for Secrets and Services. */
    readonly connection: Pick<Connection, 'request' | 'stream' | 'kubeConfig'>;
    /** Namespaces to watch; empty means all. */
    readonly watchNamespaces: readonly string[];
    readonly discovery: Pick<Discovery, 'clusters' | 'subscribe'>;
    readonly settings: Pick<SettingsStore, 'current' | 'subscribe'>;
    readonly clock: Clock;
    /** Uniform in [0, 1). */
    readonly random: () => number;
    readonly logger: Logger;
    /** For tests: resolves names to addresses. */
    readonly lookup?: AddressLookup;
  }) {
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

  /** APIs with an accepted kubeconfig, whether or not they answer. */
  list(): readonly TenantApi[] {
    return this.#followers().flatMap(({ api }) => api ?? []);
  }

  /**
   * Tenant clusters without an accepted kubeconfig. An absent one is a failure only for a tenant
   * cluster with private nodes.
   */
  missing(): readonly MissingKubeconfig[] {
    return this.#followers().flatMap(({ missing }) => missing ?? []);
  }

  /**
   * Calls the listener after every change of {@link list} or {@link missing}. The returned function
   * ends the subscription.
   */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Follows discovery, Secrets and files until the signal aborts; then closes connections. */
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

  /** Notifies listeners once of changes in direct succession. */
  #announce(): void {
    if (this.#announced) return;
    this.#announced = true;
    setImmediate(() => {
      this.#announced = false;
      for (const listener of this.#listeners) listener();
    });
  }
}

/**
 * Returns whether a tenant cluster may have an API to read. Kinds other than vCluster need private
 * nodes: all their other workloads run on the host.
 */
export function mayHaveApi({ excluded, source, nodeMode }: TenantCluster): boolean {
  if (excluded) return false;
  return source === 'workload' || source === 'external' || nodeMode === 'private';
}

/** Returns `host:port` of an API server, with an IPv6 address in brackets. */
function addressOf({ kubeConfig }: Pick<Connection, 'kubeConfig'>): string {
  const server = kubeConfig.getCurrentCluster()?.server ?? '';
  if (!URL.canParse(server)) return '';
  const { hostname, port, protocol } = new URL(server);
  return `${hostname}:${port || (protocol === 'https:' ? '443' : '80')}`;
}
