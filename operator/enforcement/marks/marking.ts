import type { Settings } from '../../config/settings.ts';
import type { DiscoverySources } from '../../discovery/sources.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import type { EventRecorder } from '../../kubernetes/events.ts';
import { metadataOf } from '../../kubernetes/resource.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { createWorkQueue, type WorkOutcome } from '../../kubernetes/work-queue.ts';
import type { WorkQueueMetrics } from '../../kubernetes/metrics.ts';
import { textsAt } from '../../discovery/object-reading.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { applyMarks } from './apply-marks.ts';
import { marksOf, stateKeys, textOfMarks } from './keys.ts';
import { planMarks, type PlannedMarks, type StateSince } from './plan-marks.ts';
import { stateEvent } from './state-event.ts';

/** How far marks are from what they should be. */
export interface MarkingStatus {
  readonly suspendedClusters: readonly string[];
  /** Objects that do not have their marks yet. */
  readonly pending: number;
  /** Why an object cannot be given its marks, one line each. */
  readonly problems: readonly string[];
}

/** Keeps the marks on namespaces and control planes what the billing states and the mode call for. */
export interface Marking {
  /** Looks at all objects and gives those that need it other marks. */
  look(): void;
  /** Works until the signal is aborted. */
  run(signal: AbortSignal): Promise<void>;
  readonly status: () => MarkingStatus;
}

export interface MarkingOptions {
  readonly connection: Pick<Connection, 'request'>;
  readonly sources: Pick<DiscoverySources, 'namespaces' | 'statefulSets' | 'deployments'>;
  readonly clusters: () => readonly TenantCluster[];
  readonly stateOf: (tenant: string) => StateSince;
  readonly settings: () => Settings;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly onApplied: (seconds: number) => void;
  readonly onFailure: () => void;
  readonly queueMetrics?: WorkQueueMetrics;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What was applied to an object, so that it is not done again before the watch shows it. */
interface Applied {
  readonly uid: string;
  readonly desired: string;
  readonly before: string;
  /** Somebody else may own a key of ours; then this is as far as it goes. */
  readonly after: string;
  readonly at: number;
}

interface Wanted {
  readonly object: PlannedMarks;
  /** When the need was first seen, by the monotonic clock. */
  readonly since: number;
}

const CONCURRENCY = 4;
const RETRY_CAP_MS = 60_000;
/** How long a watch may take to show what was applied. */
const WATCH_LAG_MS = 10_000;
const MEND_FORBIDDEN = 'grant it with config/components/enforcement';

export function createMarking(options: MarkingOptions): Marking {
  const { connection, sources, settings, clock, logger } = options;
  const wanted = new Map<string, Wanted>();
  const applied = new Map<string, Applied>();
  const problems = new Map<string, string>();
  let suspended: readonly TenantCluster[] = [];

  const queue = createWorkQueue({
    name: 'enforcement',
    process: work,
    concurrency: CONCURRENCY,
    retryCapMs: RETRY_CAP_MS,
    clock,
    logger,
    ...(options.queueMetrics !== undefined && { metrics: options.queueMetrics }),
  });

  function look(): void {
    const { enforcement, identity } = settings();
    const plan = planMarks({
      mode: enforcement.mode,
      labelPrefix: identity.labelPrefix,
      clusters: options.clusters(),
      stateOf: options.stateOf,
      namespaces: sources.namespaces.values(),
      statefulSets: sources.statefulSets.values(),
      deployments: sources.deployments.values(),
    });
    suspended = plan.suspended;
    const needed = new Map(plan.objects.map((object) => [keyOf(object), object]));
    for (const key of applied.keys()) if (!needed.has(key)) applied.delete(key);
    for (const key of wanted.keys()) if (!needed.has(key)) forget(key);
    for (const [key, object] of needed) {
      if (isUnderWay(key, object)) continue;
      const before = wanted.get(key);
      const same = before !== undefined && sameGoal(before.object, object);
      wanted.set(key, { object, since: same ? before.since : clock.monotonic() });
      // What failed is tried again in its own time, unless there is news.
      if (!same || !problems.has(key)) queue.add(key);
    }
  }

  /** The watch has not shown yet what was applied, or will never show more. */
  function isUnderWay(key: string, object: PlannedMarks): boolean {
    const last = applied.get(key);
    if (last === undefined || last.uid !== object.uid) return false;
    if (last.desired !== textOfMarks(object.desired)) return false;
    const observed = textOfMarks(object.observed);
    if (observed === last.after) return true;
    return observed === last.before && clock.monotonic() - last.at < WATCH_LAG_MS;
  }

  async function work(key: string, signal: AbortSignal): Promise<WorkOutcome> {
    const need = wanted.get(key);
    if (need === undefined) return { kind: 'done' };
    const { object } = need;
    const outcome = await applyMarks(connection, object, signal);
    if (outcome.kind === 'failed') {
      const mend = outcome.reason.includes('HTTP 403') ? `; ${MEND_FORBIDDEN}` : '';
      const reason = `${key} cannot be marked: ${outcome.reason}${mend}`;
      problems.set(key, reason);
      options.onFailure();
      return { kind: 'failed', reason };
    }
    if (wanted.get(key) === need) forget(key);
    if (outcome.kind === 'gone') return { kind: 'done' };
    const after = observedAfter(outcome.object);
    applied.set(key, {
      uid: object.uid,
      desired: textOfMarks(object.desired),
      before: textOfMarks(object.observed),
      after,
      at: clock.monotonic(),
    });
    report(object, after);
    options.onApplied((clock.monotonic() - need.since) / 1000);
    return { kind: 'done' };
  }

  function observedAfter(object: unknown): string {
    const metadata: RawObject = metadataOf(object);
    const labels = textsAt(metadata, 'labels');
    const annotations = textsAt(metadata, 'annotations');
    return textOfMarks(marksOf({ labels, annotations }, settings().identity.labelPrefix));
  }

  function report(object: PlannedMarks, after: string): void {
    const { labelPrefix } = settings().identity;
    const key = keyOf(object);
    if (after !== textOfMarks(object.desired)) {
      logger.warn(`[enforcement] ${key} keeps marks that somebody else has written`);
    }
    logger.info(`[enforcement] marked ${key}`, { ...object.desired });
    const event = stateEvent(object, stateKeys(labelPrefix));
    if (event !== undefined) options.events.record(event);
  }

  function forget(key: string): void {
    wanted.delete(key);
    problems.delete(key);
  }

  return {
    look,
    run: (signal) => queue.run(signal),
    status: () => ({
      suspendedClusters: suspended.map(({ id }) => id),
      pending: wanted.size,
      problems: [...problems.values()],
    }),
  };
}

/** `Namespace/tenant-a`, `StatefulSet/tenant-a/main`. */
function keyOf({ kind, namespace, name }: PlannedMarks): string {
  return namespace === '' ? `${kind}/${name}` : `${kind}/${namespace}/${name}`;
}

function sameGoal(a: PlannedMarks, b: PlannedMarks): boolean {
  return a.uid === b.uid && textOfMarks(a.desired) === textOfMarks(b.desired);
}
