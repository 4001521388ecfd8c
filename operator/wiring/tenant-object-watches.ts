import type { SettingsStore } from '../config/settings.ts';
import type { Departed } from '../discovery/departures.ts';
import { SOURCES } from '../discovery/registry.ts';
import { tenantObject } from '../discovery/tenant-objects.ts';
import type { TenantObject, TenantResource } from '../discovery/tenant-source.ts';
import { createSource } from '../kubernetes/namespaced-source.ts';
import type { WatchMeans } from '../kubernetes/reflector-options.ts';
import { preferServedVersion } from '../kubernetes/served-version.ts';
import type { Source } from '../kubernetes/source.ts';
import type { TenantSourceName } from '../model/tenant-sources.ts';
import type { Part } from './parts.ts';
import { whenWanted } from './when-wanted.ts';

export interface TenantObjectWatchesOptions extends WatchMeans {
  readonly settings: Pick<SettingsStore, 'current' | 'subscribe'>;
  readonly labelPrefix: string;
  /** Empty means all. */
  readonly watchNamespaces: readonly string[];
  /** A custom resource has come, changed, or gone as `departed`. */
  readonly onChange: (departed?: Departed) => void;
}

/**
 * The watches of custom resources that stand for tenant clusters, one for each kind that has one, and the parts
 * that run them: each from when settings name its kind (docs/discovery.md#several-kinds-of-tenants).
 */
export function createTenantObjectWatches(options: TenantObjectWatchesOptions): {
  readonly sources: ReadonlyMap<TenantSourceName, Source<TenantObject>>;
  readonly parts: readonly Part[];
} {
  const { settings } = options;
  const sources = new Map(
    SOURCES.flatMap(({ name, resource }) =>
      resource === undefined ? [] : [[name, watchOf(name, resource, options)] as const],
    ),
  );
  const parts = [...sources].map(([kind, source]) => ({
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
  return { sources, parts };
}

function watchOf(
  of: TenantSourceName,
  resource: TenantResource,
  options: TenantObjectWatchesOptions,
): Source<TenantObject> {
  const { connection, labelPrefix, watchNamespaces, onChange, clock, random, logger } = options;
  const { group, versions, plural } = resource;
  return createSource<TenantObject>({
    connection: preferServedVersion({ connection, group, versions }),
    resource: { group, version: versions[0], plural },
    namespaces: watchNamespaces,
    project: tenantObject(resource, labelPrefix),
    handlers: [
      {
        upserted: () => onChange(),
        deleted: (last) => onChange({ kind: 'object', of, last }),
      },
    ],
    clock,
    random,
    logger,
  });
}
