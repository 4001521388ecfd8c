import type { Settings } from '../config/settings.ts';
import type { Observation } from '../observation/observation.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { UsageFailure, UsageFailures } from './gaps.ts';
import { createPodMetricsReader, type PodMetricsReader } from './pod-metrics.ts';
import type { CollectorSources } from './scope.ts';
import type { TenantObjectsList } from './tenant-scopes.ts';
import { type UsageList, UsageSampler } from './usage-sampler.ts';

/** Pod usage on this cluster. */
export interface HostUsage {
  readonly sampler: UsageSampler;
  readonly failures: UsageFailures;
  /** What of {@link failures} is to be shown; with WATCH_NAMESPACES it names the namespaces. */
  readonly failure: UsageFailure | undefined;
}

export interface HostUsageOptions {
  readonly observation: Observation;
  readonly sources: Pick<CollectorSources, 'pods'>;
  readonly settings: () => Settings;
  readonly podMetrics: PodMetricsReader;
  readonly logger: Logger;
}

/** The key of the list of all namespaces. */
const ALL = '*';

/** Namespaces that a reason names. */
const NAMED = 3;

/**
 * Usage for the tenant clusters that are billed by it: one list of the whole cluster, or with
 * WATCH_NAMESPACES one for each namespace, so that rights in those namespaces suffice and one that
 * cannot be read costs nothing to the others (docs/metering.md#unknown-is-not-zero).
 */
export function createHostUsage(options: HostUsageOptions): HostUsage {
  const { observation, sources, settings, podMetrics } = options;
  const { tenantClusters } = observation;
  const isSplit = (): boolean => settings().discovery.watchNamespaces.length > 0;
  const lists = (): readonly UsageList[] => {
    const wanted = wantedNamespaces(observation);
    const common = {
      reader: podMetrics,
      findPod: (namespace: string, name: string) => sources.pods.find(namespace, name),
      usage: observation.usage,
      wants: (namespace: string) => wanted.has(namespace),
    };
    if (!isSplit()) return [{ ...common, key: ALL, names: [...wanted] }];
    return [...wanted].map((namespace) => ({
      ...common,
      key: namespace,
      namespace,
      names: [namespace],
      wants: (found) => found === namespace,
    }));
  };
  const sampler = new UsageSampler(lists, options.logger);
  return {
    sampler,
    failures: {
      get all() {
        return sampler.failure(ALL);
      },
      of: (id) => {
        const cluster = tenantClusters.current.find((each) => each.id === id);
        return cluster === undefined ? undefined : sampler.failure(cluster.namespace);
      },
    },
    get failure() {
      return sampler.failure(ALL) ?? summary(sampler.failures());
    },
  };
}

/** Namespaces whose tenant clusters are billed by what their pods use. */
function wantedNamespaces({ tenantClusters }: Observation): ReadonlySet<string> {
  const clusters = tenantClusters.current.filter(
    ({ excluded, source, metering }) =>
      !excluded && source === 'workload' && metering.cpuMemoryBasis !== 'requests',
  );
  return new Set(clusters.map(({ namespace }) => namespace));
}

function summary(failures: ReturnType<UsageSampler['failures']>): UsageFailure | undefined {
  if (failures.length === 0) return undefined;
  const named = failures.slice(0, NAMED).map(([name, { reason }]) => `"${name}": ${reason}`);
  const more = failures.length > NAMED ? `; and ${failures.length - NAMED} more` : '';
  return {
    reason: `pod metrics of namespace ${named.join('; ')}${more}`,
    since: Math.min(...failures.map(([, { since }]) => since)),
  };
}

const TENANT_TIMEOUT_MS = 10_000;

/** Usage inside of tenant clusters with nodes of their own, where they are billed by it. */
export function createTenantUsage(tenants: TenantObjectsList, logger: Logger): UsageSampler {
  const readers = new WeakMap<object, PodMetricsReader>();
  const lists = (): readonly UsageList[] =>
    tenants.list().flatMap((tenant) => {
      const { id, metricsApi, listed } = tenant;
      if (metricsApi === undefined || !listed) return [];
      const reader =
        readers.get(metricsApi) ?? createPodMetricsReader(metricsApi, TENANT_TIMEOUT_MS);
      readers.set(metricsApi, reader);
      return {
        key: id,
        reader,
        names: [id],
        wants: () => true,
        findPod: (namespace: string, name: string) => tenant.findPod(namespace, name),
        usage: tenant.observation.usage,
      };
    });
  return new UsageSampler(lists, logger);
}
