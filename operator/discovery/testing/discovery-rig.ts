import type { Environment } from '../../settings/load-environment.ts';
import type { SettingsStore } from '../../settings/settings.ts';
import { createSettingsStore } from '../../settings/settings-store.ts';
import { createManualClock, type ManualClock } from '../../kubernetes/testing/manual-clock.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { Discovery } from '../discovery.ts';
import { ExternalFile } from '../external-file.ts';
import type { TenantSourceName } from '../../model/tenant-sources.ts';
import type { RecordStore } from '../../ledger/ledger.ts';
import { SOURCES } from '../registry.ts';
import { tenantObject } from '../tenant-objects.ts';
import type { TenantObject } from '../tenant-source.ts';
import {
  type ControlPlaneWorkload,
  controlPlaneWorkload,
  PLATFORM_INSTANCES,
  type PlatformInstance,
  platformInstance,
} from '../vcluster/views.ts';
import { type HostNamespace, hostNamespace } from '../views.ts';
import { createFakeSource, type FakeSource } from './fake-source.ts';
import { settingsFrom } from './host.ts';
import { namespaceObject, type ObjectOptions, workload } from './objects.ts';
import { CUSTOMER_ID_KEYS } from '../../destinations/registry.ts';

export interface DiscoveryRig {
  readonly discovery: Discovery;
  readonly clock: ManualClock;
  readonly settings: SettingsStore;
  /** A test may put something else in the place of `writeRecords`. */
  readonly records: { -readonly [Key in keyof RecordStore]: RecordStore[Key] };
  readonly sources: {
    readonly statefulSets: FakeSource<ControlPlaneWorkload>;
    readonly deployments: FakeSource<ControlPlaneWorkload>;
    readonly namespaces: FakeSource<HostNamespace>;
    readonly instances: FakeSource<PlatformInstance>;
    /** Of every kind of tenants that has a custom resource. */
    readonly tenantObjects: ReadonlyMap<TenantSourceName, FakeSource<TenantObject>>;
  };
  /** Lines logged, each with its level before it. */
  readonly lines: string[];
  /** A tenant cluster with its Namespace. */
  readonly add: (namespace: string, name: string, options?: ObjectOptions) => void;
  readonly remove: (namespace: string, name: string) => void;
  /** The same, as watches tell it, with its Namespace. */
  readonly uninstall: (namespace: string, name: string) => void;
  /** The same sources and records under a new process. */
  readonly restart: () => Discovery;
}

/**
 * Discovery over sources that a test sets; the platform API is absent until it says otherwise. It
 * begins at `start`, milliseconds since the epoch, where that is given.
 */
export function createDiscoveryRig(environment: Environment = {}, start?: number): DiscoveryRig {
  const prefix = 'meterfeed.io';
  const apps = (plural: string) => ({ group: 'apps', version: 'v1', plural });
  const sources = {
    statefulSets: createFakeSource(apps('statefulsets'), controlPlaneWorkload(prefix)),
    deployments: createFakeSource(apps('deployments'), controlPlaneWorkload(prefix)),
    namespaces: createFakeSource(
      { group: '', version: 'v1', plural: 'namespaces' },
      hostNamespace(prefix),
    ),
    instances: createFakeSource(PLATFORM_INSTANCES, platformInstance(prefix)),
    tenantObjects: new Map(
      SOURCES.flatMap(({ name, resource }) => {
        if (resource === undefined) return [];
        const { group, plural, versions } = resource;
        const read = { group, version: versions[0], plural };
        return [[name, createFakeSource(read, tenantObject(resource, prefix))] as const];
      }),
    ),
  };
  sources.instances.become('absent');
  const clock = createManualClock(start);
  const settings = createSettingsStore(settingsFrom(environment));
  const records = createMemoryLedger();
  const lines: string[] = [];
  const logger: Logger = {
    debug: (message) => void lines.push(`debug ${message}`),
    info: (message) => void lines.push(`info ${message}`),
    warn: (message) => void lines.push(`warn ${message}`),
    error: (message) => void lines.push(`error ${message}`),
  };
  const create = () => {
    const path = settings.current().tenantApi.clustersFile;
    const external =
      path === undefined
        ? {}
        : {
            external: new ExternalFile({
              path,
              customerIdKeys: CUSTOMER_ID_KEYS,
              records,
              clock,
            }),
          };
    return new Discovery({
      sources,
      settings,
      customerIdKeys: CUSTOMER_ID_KEYS,
      records,
      clock,
      logger,
      ...external,
    });
  };
  const discovery = create();
  const remove = (namespace: string, name: string): void =>
    sources.statefulSets.remove(namespace, name);
  return {
    discovery,
    clock,
    settings,
    records,
    sources,
    lines,
    add: (namespace, name, options) => {
      sources.namespaces.put(namespaceObject(namespace));
      sources.statefulSets.put(workload(namespace, name, options));
    },
    remove,
    uninstall: (namespace, name) => {
      const last = sources.statefulSets.find(namespace, name);
      const home = sources.namespaces.find('', namespace);
      remove(namespace, name);
      sources.namespaces.remove('', namespace);
      if (last !== undefined) discovery.request({ kind: 'workload', last });
      if (home !== undefined) discovery.request({ kind: 'namespace', last: home });
    },
    restart: create,
  };
}
