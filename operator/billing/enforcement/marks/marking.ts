import type { Settings } from '../../../settings/settings.ts';
import type { DiscoverySources } from '../../../discovery/sources.ts';
import type { TenantCluster } from '../../../discovery/tenant-cluster.ts';
import type { Connection } from '../../../kubernetes/connection.ts';
import type { EventRecorder } from '../../../kubernetes/events.ts';
import { metadataOf } from '../../../kubernetes/resource.ts';
import type { RawObject } from '../../../kubernetes/source.ts';
import { type WorkOutcome, WorkQueue } from '../../../kubernetes/work-queue.ts';
import type { WorkQueueMetrics } from '../../../kubernetes/metrics.ts';
import { textsAt } from '../../../discovery/views.ts';
import type { Clock } from '../../../telemetry/clock.ts';
import type { Logger } from '../../../telemetry/logger.ts';
import { applyMarks, stateEvent } from './apply-marks.ts';
import { marksOf, stateKeys, textOfMarks } from './keys.ts';
import { planMarks, type PlannedMarks, type StateSince } from './plan-marks.ts';

/** How many objects still lack their marks, and why. */
export interface MarkingStatus {
  readonly suspendedClusters: readonly string[];
  /** Objects that do not have their marks yet. */
  readonly pending: number;
  /** Why an object cannot be given its marks, one line each. */
  readonly problems: readonly string[];
}

/** Marks applied to an object. Prevents applying them again before the watch shows them. */
interface Applied {
  readonly uid: string;
  readonly desired: string;
  readonly before: string;
  /** The marks after applying. Another field manager's keys differ from `desired`. */
  readonly after: string;
  readonly at: number;
}

const CONCURRENCY = 4;
const RETRY_CAP_MS = 60_000;
/** How long a watch may take to show applied marks. */
const WATCH_LAG_MS = 10_000;
const FIX_FORBIDDEN = 'grant it with config/components/enforcement';

/** Keeps the marks of namespaces and control planes as billing states and the mode require. */
export class Marking {
  readonly #options;
  readonly #queue: WorkQueue;
  readonly #wanted = new Map<
    string,
    {
      readonly object: PlannedMarks;
      /** When the need was first seen, monotonic milliseconds. */
      readonly since: number;
    }
  >();
  readonly #applied = new Map<string, Applied>();
  readonly #problems = new Map<string, string>();
  #suspended: readonly TenantCluster[] = [];

  constructor(options: {
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
  }) {
    const { clock, logger, queueMetrics } = options;
    this.#options = options;
    this.#queue = new WorkQueue({
      name: 'enforcement',
      process: (key, signal) => this.#work(key, signal),
      concurrency: CONCURRENCY,
      retryCapMs: RETRY_CAP_MS,
      clock,
      logger,
      metrics: queueMetrics,
    });
  }

  run(signal: AbortSignal): Promise<void> {
    return this.#queue.run(signal);
  }

  readonly status = (): MarkingStatus => ({
    suspendedClusters: this.#suspended.map(({ id }) => id),
    pending: this.#wanted.size,
    problems: [...this.#problems.values()],
  });

  /** Plans the marks of all objects and queues those that differ. */
  reconcile(): void {
    const { sources, settings, clusters, stateOf, clock } = this.#options;
    const { enforcement, identity } = settings();
    const plan = planMarks({
      mode: enforcement.mode,
      neverSuspend: new Set(enforcement.neverSuspend),
      labelPrefix: identity.labelPrefix,
      clusters: clusters(),
      stateOf,
      namespaces: sources.namespaces.values(),
      statefulSets: sources.statefulSets.values(),
      deployments: sources.deployments.values(),
    });
    this.#suspended = plan.suspended;
    const needed = new Map(plan.objects.map((object) => [keyOf(object), object]));
    for (const key of this.#applied.keys()) if (!needed.has(key)) this.#applied.delete(key);
    for (const key of this.#wanted.keys()) if (!needed.has(key)) this.#forget(key);
    for (const [key, object] of needed) {
      if (this.#isUnderWay(key, object)) continue;
      const before = this.#wanted.get(key);
      const same = before !== undefined && sameGoal(before.object, object);
      this.#wanted.set(key, { object, since: same ? before.since : clock.monotonic() });
      // A failed object waits for its own retry unless its goal changed.
      if (!same || !this.#problems.has(key)) this.#queue.add(key);
    }
  }

  /** True once the marks are applied and the watch does not show them yet, or shows all it will. */
  #isUnderWay(key: string, object: PlannedMarks): boolean {
    const last = this.#applied.get(key);
    if (last === undefined || last.uid !== object.uid) return false;
    if (last.desired !== textOfMarks(object.desired)) return false;
    const observed = textOfMarks(object.observed);
    if (observed === last.after) return true;
    return observed === last.before && this.#options.clock.monotonic() - last.at < WATCH_LAG_MS;
  }

  async #work(key: string, signal: AbortSignal): Promise<WorkOutcome> {
    const need = this.#wanted.get(key);
    if (need === undefined) return { kind: 'done' };
    const { object } = need;
    const outcome = await applyMarks(this.#options.connection, object, signal);
    if (outcome.kind === 'failed') {
      const fix = outcome.reason.includes('HTTP 403') ? `; ${FIX_FORBIDDEN}` : '';
      const reason = `${key} cannot be marked: ${outcome.reason}${fix}`;
      this.#problems.set(key, reason);
      this.#options.onFailure();
      return { kind: 'failed', reason };
    }
    if (this.#wanted.get(key) === need) this.#forget(key);
    if (outcome.kind === 'gone') return { kind: 'done' };
    const after = this.#observedAfter(outcome.object);
    this.#applied.set(key, {
      uid: object.uid,
      desired: textOfMarks(object.desired),
      before: textOfMarks(object.observed),
      after,
      at: this.#options.clock.monotonic(),
    });
    this.#report(object, after);
    this.#options.onApplied((this.#options.clock.monotonic() - need.since) / 1000);
    return { kind: 'done' };
  }

  #observedAfter(object: unknown): string {
    const metadata: RawObject = metadataOf(object);
    const labels = textsAt(metadata, 'labels');
    const annotations = textsAt(metadata, 'annotations');
    return textOfMarks(
      marksOf({ labels, annotations }, this.#options.settings().identity.labelPrefix),
    );
  }

  #report(object: PlannedMarks, after: string): void {
    const { labelPrefix } = this.#options.settings().identity;
    const key = keyOf(object);
    if (after !== textOfMarks(object.desired)) {
      this.#options.logger.warn(`[enforcement] ${key} keeps marks of another field manager`);
    }
    this.#options.logger.info(`[enforcement] marked ${key}`, { ...object.desired });
    const event = stateEvent(object, stateKeys(labelPrefix));
    if (event !== undefined) this.#options.events.record(event);
  }

  #forget(key: string): void {
    this.#wanted.delete(key);
    this.#problems.delete(key);
  }
}

/** `Namespace/tenant-a`, `StatefulSet/tenant-a/main`. */
function keyOf({ kind, namespace, name }: PlannedMarks): string {
  return namespace === '' ? `${kind}/${name}` : `${kind}/${namespace}/${name}`;
}

function sameGoal(a: PlannedMarks, b: PlannedMarks): boolean {
  return a.uid === b.uid && textOfMarks(a.desired) === textOfMarks(b.desired);
}
