import pLimit from 'p-limit';
import type { PodView } from '../observation/pod.ts';
import type { UsageSamples } from '../observation/usage-samples.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { UsageFailure } from './gaps.ts';
import type { PodMetricsReader, PodReading } from './pod-metrics.ts';

/** A list of the metrics API, and what becomes of it. */
export interface UsageList {
  /** Tells it from the others: a namespace, the id of a tenant cluster, or `*`. */
  readonly key: string;
  /** With another one what was known of failures is forgotten. */
  readonly reader: PodMetricsReader;
  /** The namespace that is listed; absent where all are. */
  readonly namespace?: string;
  /** Whose usage is wanted, named by a warning while it cannot be had; when there is none, nothing is read. */
  readonly names: readonly string[];
  /** Whether the usage of a namespace's pods is wanted. */
  wants(namespace: string): boolean;
  findPod(namespace: string, name: string): PodView | undefined;
  /** Where the samples go. */
  readonly usage: UsageSamples;
}

/** The same complaint about values of the metrics API is logged again after this long. */
const REPEAT_MS = 600_000;

/** Complaints that are shown. */
const SHOWN = 3;

/** How many lists are read at the same time. */
const AT_ONCE = 16;

/** Samples pod usage for tenant clusters that are billed by it. */
export class UsageSampler {
  readonly #lists: () => readonly UsageList[];
  readonly #logger: Logger;
  readonly #samplers = new Map<string, ListSampler>();
  /** Lists that failed are being read again. */
  #retrying = false;

  /** `lists` is asked again for each sample. */
  constructor(lists: () => readonly UsageList[], logger: Logger) {
    this.#lists = lists;
    this.#logger = logger;
  }

  /**
   * Reads each list once, for samples of the moment `at`. Those that failed the last time are not
   * waited for: one that hangs costs the others nothing.
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

  /** Why a list could not be read; undefined while it can. */
  failure(key: string): UsageFailure | undefined {
    return this.#samplers.get(key)?.failure;
  }

  /** The keys of all lists that cannot be read, with the reasons. */
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

/** What is remembered of one list between samples. */
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
    if (list.names.length === 0) return;
    const problems: string[] = [];
    let skipped = 0;
    const take = (reading: PodReading): void => {
      const problem = addSample(list, reading, at);
      if (problem === undefined) return;
      skipped += 1;
      if (skipped <= SHOWN) problems.push(problem);
    };
    const outcome = await this.reader.read(take, signal, list.namespace);
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

/** Why a reading cannot be taken, `what: where: "input"`; undefined when it was, or nobody wants it. */
function addSample(list: UsageList, reading: PodReading, at: number): string | undefined {
  if (reading.kind === 'malformed') return reading.problem;
  const { namespace, name, cpu, memory } = reading;
  if (!list.wants(namespace)) return undefined;
  const pod = list.findPod(namespace, name);
  if (pod === undefined) return `no such pod: pod metrics: "${namespace}/${name}"`;
  if (!pod.terminal) list.usage.add(pod.uid, { at, cpu, memory });
  return undefined;
}
