import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { PodView } from '../observation/pod.ts';
import type { UsageSamples } from '../observation/usage-samples.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { PodMetricsReader } from './pod-metrics.ts';

/** Samples pod usage for tenant clusters that are billed by it. */
export interface Sampler {
  /** One reading of the metrics API, taken at `at`. */
  sample(at: number, signal: AbortSignal): Promise<void>;
  /** Why the metrics API could not be read, since when; undefined while it can. */
  readonly failure: { readonly reason: string; readonly since: number } | undefined;
}

export interface SamplerOptions {
  readonly reader: PodMetricsReader;
  readonly findPod: (namespace: string, name: string) => PodView | undefined;
  readonly usage: UsageSamples;
  readonly tenantClusters: () => readonly TenantCluster[];
  readonly logger: Logger;
}

/** The same complaint about values of the metrics API is logged again after this long. */
const REPEAT_MS = 600_000;

export function createSampler(options: SamplerOptions): Sampler {
  const { reader, findPod, usage, logger } = options;
  let failure: { readonly reason: string; readonly since: number } | undefined;
  const warned = new Set<string>();
  let complainedAt = -Infinity;

  const namespaces = (): ReadonlySet<string> =>
    new Set(
      options
        .tenantClusters()
        .filter((cluster) => !cluster.excluded && cluster.metering.cpuMemoryBasis !== 'requests')
        .map((cluster) => cluster.namespace),
    );

  const complain = (at: number, problems: readonly string[]): void => {
    if (problems.length === 0 || at - complainedAt < REPEAT_MS) return;
    complainedAt = at;
    logger.warn(`[metrics] skipped ${problems.length} readings of pod metrics`, {
      problems: problems.slice(0, 3),
    });
  };

  return {
    get failure() {
      return failure;
    },
    sample: async (at, signal) => {
      const wanted = namespaces();
      if (wanted.size === 0) return;
      const problems: string[] = [];
      const outcome = await reader.read((reading) => {
        if (reading.kind === 'malformed') {
          problems.push(reading.problem);
          return;
        }
        const { namespace, name, cpu, memory } = reading;
        if (!wanted.has(namespace)) return;
        const pod = findPod(namespace, name);
        if (pod === undefined) problems.push(`no such pod: pod metrics: "${namespace}/${name}"`);
        else if (!pod.terminal) usage.add(pod.uid, { at, cpu, memory });
      }, signal);
      if (signal.aborted) return;
      complain(at, problems);
      if (outcome.kind === 'read') {
        if (failure !== undefined) logger.info('[metrics] pod metrics are read again');
        failure = undefined;
        warned.clear();
        return;
      }
      failure = { reason: outcome.reason, since: failure?.since ?? at };
      for (const namespace of wanted) {
        if (warned.has(namespace)) continue;
        warned.add(namespace);
        logger.warn(`[metrics] warning: cannot get pod metrics for ${namespace}`, {
          reason: outcome.reason,
        });
      }
    },
  };
}
