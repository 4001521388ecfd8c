import pLimit from 'p-limit';
import { greatest } from '../model/extremes.ts';
import { isRecord } from '../model/is-record.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { linkAbort, pause } from './abort.ts';
import { newestDateOf, timeOf } from './api-dates.ts';
import type { Connection } from './connection.ts';
import { describeFailure } from './outcome.ts';
import { resourcePath } from './resource.ts';
import type { Bracket, LastSign, Projected } from './source.ts';

/**
 * What kubelets, the scheduler and the controller of taints say of a pod that they are about to end: it
 * was there when they said so (https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/).
 */
const REASONS: ReadonlySet<unknown> = new Set([
  'Killing',
  'Preempted',
  'Evicted',
  'TaintManagerEviction',
]);

export interface PodEventsOptions {
  readonly connection: Pick<Connection, 'request'>;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'info'>;
}

/** Reads the Kubernetes Events of pods that went while nobody looked; clusters keep them for about an hour. */
export interface PodEvents {
  /**
   * When each was last said to be there, within the bracket, by uid; those that nothing is said of are left
   * out. It takes five seconds at the most, and asks of 200 pods at the most.
   */
  lastSigns(
    pods: readonly Projected[],
    within: Bracket,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, LastSign>>;
}

/** Each is a request that makes the API server read all Events of a namespace. */
const MOST_PODS = 200;
const AT_ONCE = 4;
const LONGEST_MS = 5_000;
/** Far more than are said of one pod; of each only the newest count. */
const MOST_EVENTS = 100;

export function createPodEvents(options: PodEventsOptions): PodEvents {
  return new ListedPodEvents(options);
}

class ListedPodEvents implements PodEvents {
  readonly #options: PodEventsOptions;
  /** Of all watches together. */
  readonly #limit = pLimit(AT_ONCE);
  readonly #told = new Set<string>();

  constructor(options: PodEventsOptions) {
    this.#options = options;
  }

  async lastSigns(
    pods: readonly Projected[],
    within: Bracket,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, LastSign>> {
    const signs = new Map<string, LastSign>();
    const link = linkAbort(signal);
    void pause(this.#options.clock, LONGEST_MS, link.signal).then(link.abort);
    const ask = async (pod: Projected): Promise<void> => {
      if (link.signal.aborted) return;
      const items = await this.#list(pod, link.signal);
      // Without the right to it nothing more is learnt by asking of another one.
      if (items === undefined) link.abort();
      const sign = lastOf(items ?? [], pod.uid, within);
      if (sign !== undefined) signs.set(pod.uid, sign);
    };
    await Promise.all(pods.slice(0, MOST_PODS).map((pod) => this.#limit(ask, pod)));
    link.abort();
    link.release();
    return signs;
  }

  async #list(
    { namespace, uid }: Projected,
    signal: AbortSignal,
  ): Promise<readonly unknown[] | undefined> {
    const path = resourcePath({ group: '', version: 'v1', plural: 'events', namespace });
    const fieldSelector = `involvedObject.kind=Pod,involvedObject.uid=${uid}`;
    const outcome = await this.#options.connection.request(path, {
      query: { fieldSelector, limit: MOST_EVENTS },
      signal,
      timeoutMs: LONGEST_MS,
    });
    if (outcome.kind === 'ok') {
      const items = isRecord(outcome.body) ? outcome.body['items'] : undefined;
      return Array.isArray(items) ? (items as unknown[]) : [];
    }
    if (outcome.kind === 'status') this.#tellOnce(describeFailure(outcome));
    return undefined;
  }

  #tellOnce(reason: string): void {
    if (this.#told.has(reason)) return;
    this.#told.add(reason);
    const what = 'pods that went while nobody looked are dated without their Kubernetes Events';
    this.#options.logger.info(`[controller] ${what}: ${reason}`);
  }
}

function lastOf(items: readonly unknown[], uid: string, within: Bracket): LastSign | undefined {
  return items
    .flatMap((item) => signOf(item, uid))
    .filter(({ at }) => at > within.from && at <= within.until)
    .reduce<LastSign | undefined>((a, b) => (a === undefined || b.at > a.at ? b : a), undefined);
}

/**
 * What an Event says of a pod with this uid. Its time is of the clock of who says it, and believed up to the
 * second in which the API server wrote it down.
 */
export function signOf(event: unknown, uid: string): readonly LastSign[] {
  if (!isRecord(event) || !REASONS.has(event['reason'])) return [];
  const { involvedObject, series, reason } = event;
  if (!isRecord(involvedObject) || involvedObject['uid'] !== uid) return [];
  const said = [
    event['firstTimestamp'],
    event['lastTimestamp'],
    event['eventTime'],
    isRecord(series) ? series['lastObservedTime'] : undefined,
  ].flatMap((time) => timeOf(time) ?? []);
  const written = newestDateOf(event);
  if (said.length === 0 || written === undefined) return [];
  return [{ at: Math.min(greatest(said), written), reason: String(reason) }];
}
