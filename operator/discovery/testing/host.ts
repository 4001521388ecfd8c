import type { Environment } from '../../settings/load-environment.ts';
import type { Settings, TenantOverrideSettings } from '../../settings/settings.ts';
import { settingsFrom as settingsOf } from '../../settings/testing/settings.ts';
import type { Projected, Projection, RawObject } from '../../kubernetes/source.ts';
import type { TenantSourceName } from '../../model/tenant-sources.ts';
import { type FixtureKind, seeFixture, workloadKind } from '../../kubernetes/testing/fixtures.ts';
import { type Discovered, discover } from '../discover.ts';
import type { ListedCluster } from '../external-file.ts';
import { SOURCES } from '../registry.ts';
import type { TenantCluster } from '../tenant-cluster.ts';
import { tenantObject } from '../tenant-objects.ts';
import { controlPlaneWorkload, platformInstance } from '../vcluster/views.ts';
import { hostNamespace } from '../views.ts';
import { namespaceObject } from './objects.ts';
import { CUSTOMER_ID_KEYS } from '../../destinations/registry.ts';

/** A host cluster's objects, for one call of discover. */
export interface Host {
  readonly workloads?: readonly RawObject[];
  /** Those that are not given exist without any metadata. */
  readonly namespaces?: readonly RawObject[];
  readonly instances?: readonly RawObject[];
  /** Custom resources of other kinds of tenants. */
  readonly objects?: Partial<Record<TenantSourceName, readonly RawObject[]>>;
  readonly external?: readonly ListedCluster[];
  readonly environment?: Environment;
  readonly overrides?: readonly TenantOverrideSettings[];
  readonly assignedIds?: ReadonlyMap<string, string>;
  readonly known?: ReadonlyMap<string, TenantCluster>;
  /** Namespaces that have not arrived. */
  readonly missing?: readonly string[];
}

export function settingsFrom(
  environment: Environment = {},
  overrides: readonly TenantOverrideSettings[] = [],
): Settings {
  return { ...settingsOf(environment), overrides };
}

/** One discovery round over objects as the API server sends them. */
export function discoverHost(host: Host): Discovered {
  const settings = settingsFrom(host.environment, host.overrides);
  const prefix = settings.identity.labelPrefix;
  const workloads = projectAll(controlPlaneWorkload(prefix), host.workloads ?? [], workloadKind);
  const instances = projectAll(
    platformInstance(prefix),
    host.instances ?? [],
    () => 'virtualclusterinstances',
  );
  const namespacesOf = (objects: readonly RawObject[]) =>
    projectAll(hostNamespace(prefix), objects, () => 'namespaces');
  const namespaces = new Map(
    namespacesOf(host.namespaces ?? []).map((namespace) => [namespace.name, namespace]),
  );
  return discover({
    settings,
    workloads,
    instances,
    namespace: (name) =>
      host.missing?.includes(name) === true
        ? undefined
        : (namespaces.get(name) ?? namespacesOf([namespaceObject(name)])[0]),
    namespaces: [...namespaces.values()],
    ownNamespace: 'meterfeed-system',
    objects: (kind) => {
      const resource = SOURCES.find(({ name }) => name === kind)?.resource;
      if (resource === undefined) return [];
      const given = host.objects?.[kind] ?? [];
      return projectAll(tenantObject(resource, prefix), given, () => resource.plural);
    },
    customerIdKeys: CUSTOMER_ID_KEYS,
    external: host.external ?? [],
    assignedIds: host.assignedIds ?? new Map(),
    known: host.known ?? new Map(),
  });
}

function projectAll<T extends Projected>(
  project: Projection<T>,
  objects: readonly RawObject[],
  kindOf: (object: RawObject) => FixtureKind,
): readonly T[] {
  return objects.flatMap((object) => project(seeFixture(kindOf(object), object)) ?? []);
}
