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
  readonly wanted: () => Wanted;
  readonly logger: Logger;
}

/** Of what usage is wanted. */
export interface Wanted {
  /** Named by a warning while it cannot be had; when there is none, nothing is read. */
  readonly names: readonly string[];
  has(namespace: string): boolean;
}

/** The same complaint about values of the metrics API is logged again after this long. */
const REPEAT_MS = 600_000;

/** Complaints that are shown. */
const SHOWN = 3;

export function createSampler(options: SamplerOptions): Sampler {
  const { reader, findPod, usage, logger } = options;
  let failure: { readonly reason: string; readonly since: number } | undefined;
  const warned = new Set<string>();
  let complainedAt = -Infinity;

  const complain = (at: number, skipped: number, problems: readonly string[]): void => {
    if (skipped === 0 || at - complainedAt < REPEAT_MS) return;
    complainedAt = at;
    logger.warn(`[metrics] skipped ${skipped} readings of pod metrics`, { problems });
  };

  return {
    get failure() {
      return failure;
    },
    sample: async (at, signal) => {
      const wanted = options.wanted();
      if (wanted.names.length === 0) return;
      const problems: string[] = [];
      let skipped = 0;
      const skip = (problem: string): void => {
        skipped += 1;
        if (skipped <= SHOWN) problems.push(problem);
      };
      const outcome = await reader.read((reading) => {
        if (reading.kind === 'malformed') {
          skip(reading.problem);
          return;
        }
        const { namespace, name, cpu, memory } = reading;
        if (!wanted.has(namespace)) return;
        const pod = findPod(namespace, name);
        if (pod === undefined) skip(`no such pod: pod metrics: "${namespace}/${name}"`);
        else if (!pod.terminal) usage.add(pod.uid, { at, cpu, memory });
      }, signal);
      if (signal.aborted) return;
      complain(at, skipped, problems);
      if (outcome.kind === 'read') {
        if (failure !== undefined) logger.info('[metrics] pod metrics are read again');
        failure = undefined;
        warned.clear();
        return;
      }
      failure = { reason: outcome.reason, since: failure?.since ?? at };
      for (const name of wanted.names) {
        if (warned.has(name)) continue;
        warned.add(name);
        logger.warn(`[metrics] warning: cannot get pod metrics for ${name}`, {
          reason: outcome.reason,
        });
      }
    },
  };
}
