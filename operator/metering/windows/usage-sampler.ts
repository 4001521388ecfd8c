import pLimit from 'p-limit';
import type { Settings } from '../../settings/settings.ts';
import { namespacesOf } from '../../discovery/tenant-cluster.ts';
import { errorText } from '../../model/error-text.ts';
import { least } from '../../model/extremes.ts';
import type { Observation } from '../timelines/observation.ts';
import type { PodView } from '../timelines/pod.ts';
import type { UsageSamples } from '../timelines/usage-samples.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { UsageFailure, UsageFailures } from './gaps.ts';
import { createPodMetricsReader, type PodMetricsReader, type PodReading } from './pod-metrics.ts';
import type { CollectorSources } from './scope.ts';
import type { TenantObjectsList } from './tenant-scopes.ts';

/** One list of the metrics API and where its readings go. */
export interface UsageList {
  /** Identifies the list: a namespace, the id of a tenant cluster, or `*`. */
  readonly key: string;
  /** A different reader resets the known failures. */
  readonly reader: PodMetricsReader;
  /** The namespace to list; absent for all. */
  readonly namespace?: string;
  /** Names for the warning while the usage cannot be read. If empty, nothing is read. */
  readonly names: readonly string[];
  /** Whether the usage of a namespace's pods is needed. */
  wants(namespace: string): boolean;
  findPod(namespace: string, name: string): PodView | undefined;
  readonly usage: UsageSamples;
}

/** A warning about invalid readings is repeated after this long. */
const REPEAT_MS = 600_000;

/** Invalid readings that a warning quotes. */
const SHOWN = 3;

/** How many lists are read at the same time. */
const AT_ONCE = 16;

/** Samples pod usage for tenant clusters that are billed by it. */
export class UsageSampler {
  readonly #lists: () => readonly UsageList[];
  readonly #logger: Logger;
  readonly #samplers = new Map<string, ListSampler>();
  /** A retry of failed lists is running. */
  #retrying = false;

  /** Calls `lists` for each sample. */
  constructor(lists: () => readonly UsageList[], logger: Logger) {
    this.#lists = lists;
    this.#logger = logger;
  }

  /**
   * Reads each list once for samples of the time `at`. It does not wait for lists that failed the
   * last time, so that one that hangs does not delay the others.
   */
  async sample(at: number, signal: AbortSignal): Promise<void> {
    const lists = this.#lists();
    const keys = new Set(lists.map(({ key }) => key));
    for (const key of this.#samplers.keys()) if (!keys.has(key)) this.#samplers.delete(key);
    const { failing = [], working = [] } = Object.groupBy(lists, (list) =>
      this.#samplerOf(list).failure === undefined ? 'working' : 'failing',
    );
    if (!this.#retrying) void this.#retry(failing, at, signal);
    await this.#sampleAll(working, at, signal);
  }

  /** Why a list could not be read; undefined if it could. */
  failure(key: string): UsageFailure | undefined {
    return this.#samplers.get(key)?.failure;
  }

  /** Keys and reasons of all lists that cannot be read. */
  failures(): readonly (readonly [key: string, failure: UsageFailure])[] {
    return [...this.#samplers].flatMap(([key, { failure }]) =>
      failure === undefined ? [] : [[key, failure] as const],
    );
  }

  #samplerOf(list: UsageList): ListSampler {
    const known = this.#samplers.get(list.key);
    if (known?.reader === list.reader) return known;
    const sampler = new ListSampler(list.reader, this.#logger);
    this.#samplers.set(list.key, sampler);
    return sampler;
  }

  async #retry(lists: readonly UsageList[], at: number, signal: AbortSignal): Promise<void> {
    this.#retrying = true;
    await this.#sampleAll(lists, at, signal).finally(() => {
      this.#retrying = false;
    });
  }

  async #sampleAll(lists: readonly UsageList[], at: number, signal: AbortSignal): Promise<void> {
    await pLimit(AT_ONCE).map(lists, async (list) => {
      if (!signal.aborted) await this.#samplerOf(list).sample(list, at, signal);
    });
  }
}

class ListSampler {
  readonly reader: PodMetricsReader;
  readonly #logger: Logger;
  readonly #warned = new Set<string>();
  #complainedAt = -Infinity;
  #failure: UsageFailure | undefined;

  constructor(reader: PodMetricsReader, logger: Logger) {
    this.reader = reader;
    this.#logger = logger;
  }

  get failure(): UsageFailure | undefined {
    return this.#failure;
  }

  async sample(list: UsageList, at: number, signal: AbortSignal): Promise<void> {
    list.usage.begin(at);
    if (list.names.length === 0) return;
    const problems: string[] = [];
    let skipped = 0;
    const take = (reading: PodReading): void => {
      const problem = addSample(list, reading, at);
      if (problem === undefined) return;
      skipped += 1;
      if (skipped <= SHOWN) problems.push(problem);
    };
    const outcome = await this.reader
      .read(take, signal, list.namespace)
      .catch((error: unknown) => ({ kind: 'failed', reason: errorText(error) }) as const);
    if (signal.aborted) return;
    if (skipped > 0) this.#complain(at, skipped, problems);
    if (outcome.kind === 'read') this.#succeed();
    else this.#fail(outcome.reason, list, at);
  }

  #complain(at: number, skipped: number, problems: readonly string[]): void {
    if (at - this.#complainedAt < REPEAT_MS) return;
    this.#complainedAt = at;
    this.#logger.warn(`[metrics] skipped ${skipped} readings of pod metrics`, { problems });
  }

  #succeed(): void {
    if (this.#failure !== undefined) this.#logger.info('[metrics] pod metrics are read again');
    this.#failure = undefined;
    this.#warned.clear();
  }

  #fail(reason: string, { names }: UsageList, at: number): void {
    this.#failure = { reason, since: this.#failure?.since ?? at };
    for (const name of names) {
      if (this.#warned.has(name)) continue;
      this.#warned.add(name);
      this.#logger.warn(`[metrics] warning: cannot get pod metrics for ${name}`, { reason });
    }
  }
}

/** Adds a reading if it is needed. Returns why it cannot, `what: where: "input"`, or undefined. */
function addSample(list: UsageList, reading: PodReading, at: number): string | undefined {
  if (reading.kind === 'malformed') return reading.problem;
  const { namespace, name, cpu, memory } = reading;
  if (!list.wants(namespace)) return undefined;
  const pod = list.findPod(namespace, name);
  if (pod === undefined) return `no such pod: pod metrics: "${namespace}/${name}"`;
  if (!pod.terminal) list.usage.add(pod.uid, { at, cpu, memory });
  return undefined;
}

/** Pod usage on this cluster. */
export interface HostUsage {
  readonly sampler: UsageSampler;
  readonly failures: UsageFailures;
  /** One of {@link failures} to show; with WATCH_NAMESPACES it names the namespaces. */
  readonly failure: UsageFailure | undefined;
}

/** The key of the list of all namespaces. */
const ALL = '*';

/** Most namespaces that a reason names. */
const NAMED = 3;

/**
 * Usage of tenant clusters that are billed by it. It reads one list of the cluster, or one for each
 * namespace with WATCH_NAMESPACES. Rights in those namespaces then suffice, and an unreadable one
 * does not affect the others (docs/explanation/gaps.md#unknown-is-not-zero).
 */
export function createHostUsage(options: {
  readonly observation: Observation;
  readonly sources: Pick<CollectorSources, 'pods'>;
  readonly settings: () => Settings;
  readonly podMetrics: PodMetricsReader;
  readonly logger: Logger;
}): HostUsage {
  const { observation, sources, settings, podMetrics } = options;
  const { tenantClusters } = observation;
  const isSplit = (): boolean => settings().discovery.watchNamespaces.length > 0;
  const lists = (): readonly UsageList[] => {
    const wanted = wantedNamespaces(observation, settings().discovery.watchNamespaces);
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
        const namespaces = cluster === undefined ? [] : namespacesOf(cluster);
        return namespaces.map((each) => sampler.failure(each)).find((each) => each !== undefined);
      },
    },
    get failure() {
      return sampler.failure(ALL) ?? summary(sampler.failures());
    },
  };
}

/** Namespaces of tenant clusters that are billed by pod usage, including leaving ones. */
function wantedNamespaces(
  { tenantClusters }: Observation,
  watched: readonly string[],
): ReadonlySet<string> {
  const leaving = tenantClusters.leaving.map(({ cluster }) => cluster);
  const clusters = [...tenantClusters.current, ...leaving].filter(
    ({ excluded, source, metering }) =>
      !excluded && source !== 'external' && metering.cpuMemoryBasis !== 'requests',
  );
  // A namespace that is not watched may be unreadable. Discovery reports it.
  const isWatched = (namespace: string) => watched.length === 0 || watched.includes(namespace);
  const isHere = (namespace: string) => namespace !== '' && isWatched(namespace);
  return new Set(clusters.flatMap(namespacesOf).filter(isHere));
}

function summary(failures: ReturnType<UsageSampler['failures']>): UsageFailure | undefined {
  if (failures.length === 0) return undefined;
  const named = failures.slice(0, NAMED).map(([name, { reason }]) => `"${name}": ${reason}`);
  const more = failures.length > NAMED ? `; and ${failures.length - NAMED} more` : '';
  return {
    reason: `pod metrics of namespace ${named.join('; ')}${more}`,
    since: least(failures.map(([, { since }]) => since)),
  };
}

const TENANT_TIMEOUT_MS = 10_000;

/** Usage inside tenant clusters with private nodes, if they are billed by it. */
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
