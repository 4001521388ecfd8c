import pLimit from 'p-limit';
import type { Connection } from '../kubernetes/connection.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createPodMetricsReader } from './pod-metrics.ts';
import { createSampler, type Sampler } from './sampler.ts';
import type { TenantObjects, TenantObjectsList } from './tenant-objects.ts';

/** Samples pod usage inside tenant clusters with nodes of their own, where they are billed by it. */
export interface TenantSampler {
  /**
   * Reads the metrics API of each of them once. Those that failed the last time are not waited for:
   * one that hangs costs the others nothing.
   */
  sample(at: number, signal: AbortSignal): Promise<void>;
  /** Why a tenant cluster's metrics API could not be read; undefined while it can. */
  failure(id: string): Sampler['failure'];
}

/** How many metrics APIs are read at the same time. */
const AT_ONCE = 16;
const TIMEOUT_MS = 10_000;

interface Sampled {
  readonly api: Pick<Connection, 'bytes'>;
  readonly sampler: Sampler;
}

export function createTenantSampler(tenants: TenantObjectsList, logger: Logger): TenantSampler {
  const samplers = new Map<string, Sampled>();
  let retrying: Promise<void> | undefined;

  const samplerOf = (tenant: TenantObjects, api: Pick<Connection, 'bytes'>): Sampler => {
    const known = samplers.get(tenant.id);
    if (known?.api === api) return known.sampler;
    const sampler = createSampler({
      reader: createPodMetricsReader(api, TIMEOUT_MS),
      findPod: (namespace, name) => tenant.findPod(namespace, name),
      usage: tenant.observation.usage,
      wanted: () => ({ names: [tenant.id], has: () => true }),
      logger,
    });
    samplers.set(tenant.id, { api, sampler });
    return sampler;
  };

  const sampleAll = async (
    wanted: readonly Sampler[],
    at: number,
    signal: AbortSignal,
  ): Promise<void> => {
    await pLimit(AT_ONCE).map(wanted, async (sampler) => {
      if (!signal.aborted) await sampler.sample(at, signal);
    });
  };

  return {
    sample: async (at, signal) => {
      const wanted = tenants.list().flatMap((tenant) => {
        const { metricsApi, listed } = tenant;
        return metricsApi === undefined || !listed ? [] : [{ tenant, metricsApi }];
      });
      const ids = new Set(wanted.map(({ tenant }) => tenant.id));
      for (const id of samplers.keys()) if (!ids.has(id)) samplers.delete(id);
      const all = wanted.map(({ tenant, metricsApi }) => samplerOf(tenant, metricsApi));
      const failing = all.filter(({ failure }) => failure !== undefined);
      retrying ??= sampleAll(failing, at, signal).finally(() => {
        retrying = undefined;
      });
      await sampleAll(
        all.filter((sampler) => !failing.includes(sampler)),
        at,
        signal,
      );
    },
    failure: (id) => samplers.get(id)?.sampler.failure,
  };
}
