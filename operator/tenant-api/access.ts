import pLimit from 'p-limit';
import type { SettingsStore, TenantApiSettings } from '../config/settings.ts';
import type { Discovery } from '../discovery/discovery.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { linkAbort } from '../kubernetes/abort.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { AddressLookup } from '../outbound/address-guard.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { compareBytewise } from '../model/bytewise.ts';
import { type AccessKeeper, createAccessKeeper } from './access-keeper.ts';
import { createKubeconfigSource } from './kubeconfig-source.ts';
import { createOpenKubeconfig } from './open-kubeconfig.ts';
import type { TenantApiAccess } from './tenant-api.ts';

export interface TenantApiAccessOptions {
  /** To the host's API server, for the Secrets. */
  readonly connection: Pick<Connection, 'request' | 'kubeConfig'>;
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

/** A tenant cluster that is followed, and how to leave it. */
interface Followed {
  readonly keeper: AccessKeeper;
  readonly leave: () => void;
  readonly ended: Promise<void>;
}

/**
 * Which tenant APIs can be talked to: for every tenant cluster that discovery finds, its kubeconfig is
 * looked for, read by the allow-list and turned into a connection with bounds of its own (spec 1.1,
 * security D.1–D.3). One that is missing, forbidden or refused is a failure with a reason.
 */
export function createTenantApiAccess(options: TenantApiAccessOptions): TenantApiAccess {
  const { connection, discovery, settings, clock, random, logger } = options;
  const listeners = new Set<() => void>();
  const followed = new Map<string, Followed>();
  const inForce = (): TenantApiSettings => settings.current().tenantApi;
  const source = createKubeconfigSource({ connection, settings: inForce });
  const open = createOpenKubeconfig({
    allowedHosts: () => inForce().allowedHosts,
    hostApi: addressOf(connection),
    now: () => clock.now(),
    ...(options.lookup === undefined ? {} : { lookup: options.lookup }),
  });
  const limit = pLimit(READS_AT_ONCE);
  let announced = false;

  /** Changes of the same moment are told once. */
  function announce(): void {
    if (announced) return;
    announced = true;
    setImmediate(() => {
      announced = false;
      for (const listener of listeners) listener();
    });
  }

  function follow(cluster: TenantCluster, signal: AbortSignal): Followed {
    const link = linkAbort(signal);
    const keeper = createAccessKeeper({
      cluster,
      source,
      open,
      limit,
      clock,
      random,
      logger,
      onChange: announce,
    });
    return { keeper, leave: link.abort, ended: keeper.run(link.signal).finally(link.release) };
  }

  function reconcile(clusters: readonly TenantCluster[], signal: AbortSignal): void {
    if (signal.aborted) return;
    const wanted = new Map(
      clusters.filter(({ excluded }) => !excluded).map((cluster) => [cluster.id, cluster]),
    );
    for (const [id, { leave }] of followed) {
      if (wanted.has(id)) continue;
      followed.delete(id);
      leave();
    }
    for (const [id, cluster] of wanted) {
      const known = followed.get(id);
      if (known === undefined) followed.set(id, follow(cluster, signal));
      else known.keeper.update(cluster);
    }
    announce();
  }

  const keepers = (): readonly AccessKeeper[] =>
    [...followed].toSorted(([a], [b]) => compareBytewise(a, b)).map(([, { keeper }]) => keeper);

  return {
    list: () => keepers().flatMap((keeper) => keeper.api() ?? []),
    failures: () => keepers().flatMap((keeper) => keeper.failure() ?? []),
    subscribe: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    run: async (signal) => {
      const review = (): void => reconcile(inForce().enabled ? discovery.clusters() : [], signal);
      const endings = [
        discovery.subscribe(review),
        settings.subscribe((next, previous) => {
          if (next.tenantApi === previous.tenantApi) return;
          for (const { keeper } of followed.values()) keeper.reconsider();
          review();
        }),
      ];
      review();
      await aborted(signal);
      for (const end of endings) end();
      await Promise.all([...followed.values()].map(({ ended }) => ended));
      followed.clear();
    },
  };
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise((resolve) => {
    signal.addEventListener('abort', resolve, { once: true });
  });
}

/** `host:port` of an API server, an IPv6 address in brackets. */
function addressOf({ kubeConfig }: Pick<Connection, 'kubeConfig'>): string {
  const server = kubeConfig.getCurrentCluster()?.server ?? '';
  if (!URL.canParse(server)) return '';
  const { hostname, port, protocol } = new URL(server);
  return `${hostname}:${port || (protocol === 'https:' ? '443' : '80')}`;
}
