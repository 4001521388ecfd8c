import { createSource } from '../../kubernetes/namespaced-source.ts';
import type { ReflectorOptions } from '../../kubernetes/reflector-options.ts';
import type { Projected, Source, SourceHandler } from '../../kubernetes/source.ts';
import type { Departed } from '../departures.ts';
import { WORKLOAD_SELECTOR } from '../vcluster/selection.ts';
import type { DiscoverySources } from '../sources.ts';
import {
  type ControlPlaneWorkload,
  controlPlaneWorkload,
  PLATFORM_INSTANCES,
  type PlatformInstance,
  platformInstance,
} from '../vcluster/views.ts';
import { type HostNamespace, hostNamespace } from '../views.ts';

export interface CreateSourcesOptions
  extends Pick<
    ReflectorOptions<Projected>,
    'connection' | 'clock' | 'random' | 'logger' | 'metrics' | 'timings'
  > {
  readonly labelPrefix: string;
  /** WATCH_NAMESPACES; empty means all. */
  readonly watchNamespaces: readonly string[];
  /** Told when anything that discovery looks at has come, changed, or gone as `departed`. */
  readonly onChange: (departed?: Departed) => void;
}

/**
 * The watches of discovery: workloads by one watch per kind (or per watched namespace), Namespaces
 * and platform instances cluster-wide.
 */
export function createDiscoverySources(options: CreateSourcesOptions): DiscoverySources {
  const { labelPrefix, watchNamespaces, onChange, ...shared } = options;
  const report = <T extends Projected>(departed: (last: T) => Departed): SourceHandler<T>[] => [
    { upserted: () => onChange(), deleted: (last) => onChange(departed(last)) },
  ];
  const workloads = (plural: string): Source<ControlPlaneWorkload> =>
    createSource<ControlPlaneWorkload>({
      ...shared,
      resource: { group: 'apps', version: 'v1', plural },
      namespaces: watchNamespaces,
      labelSelector: WORKLOAD_SELECTOR,
      project: controlPlaneWorkload(labelPrefix),
      handlers: report((last) => ({ kind: 'workload', last })),
    });
  return {
    statefulSets: workloads('statefulsets'),
    deployments: workloads('deployments'),
    tenantObjects: new Map(),
    namespaces: createSource<HostNamespace>({
      ...shared,
      resource: { group: '', version: 'v1', plural: 'namespaces' },
      namespaces: [],
      project: hostNamespace(labelPrefix),
      handlers: report((last) => ({ kind: 'namespace', last })),
    }),
    instances: createSource<PlatformInstance>({
      ...shared,
      resource: PLATFORM_INSTANCES,
      namespaces: [],
      project: platformInstance(labelPrefix),
      handlers: report((last) => ({ kind: 'instance', last })),
    }),
  };
}

/** Runs all watches until the signal is aborted. Never rejects. */
export async function runSources(sources: DiscoverySources, signal: AbortSignal): Promise<void> {
  const { statefulSets, deployments, namespaces, instances } = sources;
  await Promise.all(
    [statefulSets, deployments, namespaces, instances].map((source) => source.run(signal)),
  );
}
