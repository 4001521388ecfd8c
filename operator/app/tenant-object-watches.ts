import type { SettingsStore } from '../settings/settings.ts';
import type { Departed } from '../discovery/departures.ts';
import { SOURCES } from '../discovery/registry.ts';
import { tenantObject } from '../discovery/tenant-objects.ts';
import type { TenantObject, TenantResource } from '../discovery/tenant-source.ts';
import { createSource } from '../kubernetes/namespaced-source.ts';
import type { WatchMeans } from '../kubernetes/reflector-options.ts';
import { preferServedVersion } from '../kubernetes/served-version.ts';
import type { Source } from '../kubernetes/source.ts';
import type { TenantSourceName } from '../model/tenant-sources.ts';
import type { Component } from './components.ts';
import { whenWanted } from './when-wanted.ts';

interface TenantObjectWatchesOptions extends WatchMeans {
  readonly settings: Pick<SettingsStore, 'current' | 'subscribe'>;
  readonly labelPrefix: string;
  /** Empty means all. */
  readonly watchNamespaces: readonly string[];
}

type DepartureListener = (departed?: Departed) => void;

/**
 * Watches of the custom resources that stand for tenant clusters, one for each such kind, and the
 * components that run them. Each starts when the settings name its kind
 * (docs/explanation/discovery.md#several-kinds-of-tenants).
 */
export function createTenantObjectWatches(options: TenantObjectWatchesOptions): {
  readonly sources: ReadonlyMap<TenantSourceName, Source<TenantObject>>;
  readonly components: readonly Component[];
  /**
   * Calls the listener when a custom resource is created, changed, or deleted as `departed`.
   * Subscribe before the components run.
   */
  readonly subscribe: (listener: DepartureListener) => void;
} {
  const { settings } = options;
  const listeners: DepartureListener[] = [];
  const changed: DepartureListener = (departed) => {
    for (const listener of listeners) listener(departed);
  };
  const sources = new Map(
    SOURCES.flatMap(({ name, resource }) =>
      resource === undefined ? [] : [[name, watchOf(name, resource, options, changed)] as const],
    ),
  );
  const components = [...sources].map(([kind, source]) => ({
    name: `watch of tenants of ${kind}`,
    run: async (signal: AbortSignal): Promise<void> => {
      const isNamed = await whenWanted(
        settings,
        ({ discovery }) => discovery.sources.includes(kind),
        signal,
      );
      if (isNamed) await source.run(signal);
    },
  }));
  return { sources, components, subscribe: (listener) => void listeners.push(listener) };
}

function watchOf(
  of: TenantSourceName,
  resource: TenantResource,
  options: TenantObjectWatchesOptions,
  changed: DepartureListener,
): Source<TenantObject> {
  const { connection, labelPrefix, watchNamespaces, clock, random, logger } = options;
  const { group, versions, plural } = resource;
  return createSource<TenantObject>({
    connection: preferServedVersion({ connection, group, versions }),
    resource: { group, version: versions[0], plural },
    namespaces: watchNamespaces,
    project: tenantObject(resource, labelPrefix),
    handlers: [
      {
        upserted: () => changed(),
        deleted: (last) => changed({ kind: 'object', of, last }),
      },
    ],
    clock,
    random,
    logger,
  });
}
