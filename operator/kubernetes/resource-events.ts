import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type ResourceEvent, ResourceEventType, ResourceMetaImpl } from './dot-i.ts';
import { identify } from './object-metadata.ts';
import type { OperatorPart } from './operator-host.ts';
import type { Projected, Projection, RawObject, SourceHandler } from './source.ts';
import { createWorkQueue } from './work-queue.ts';
import type { WorkQueueMetrics } from './work-queue-metrics.ts';

/** Objects kept whole, since the base's events carry them whole. For few and small objects only. */
export interface WholeObject extends Projected {
  readonly object: RawObject;
}

/** Turns the changes of a source into the events of `@dot-i/k8s-operator`. */
export interface ResourceEvents extends OperatorPart {
  readonly project: Projection<WholeObject>;
  readonly handler: SourceHandler<WholeObject>;
}

export interface ResourceEventsOptions {
  readonly plural: string;
  /** An event whose handling throws comes again, later each time. */
  readonly onEvent: (event: ResourceEvent) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly queueMetrics?: WorkQueueMetrics;
}

interface Change {
  readonly object: RawObject;
  readonly deleted: boolean;
}

const CONCURRENCY = 4;

/**
 * Per object the newest event only: changes that come while one is handled are one event
 * afterwards. An object that is created again under its name is another object.
 */
export function createResourceEvents(options: ResourceEventsOptions): ResourceEvents {
  const pending = new Map<string, Change>();
  /** Uids whose ADDED event has been handled. */
  const added = new Set<string>();
  const queue = createWorkQueue({
    name: options.plural,
    concurrency: CONCURRENCY,
    clock: options.clock,
    logger: options.logger,
    ...(options.queueMetrics === undefined ? {} : { metrics: options.queueMetrics }),
    process: async (uid) => {
      const change = pending.get(uid);
      if (change === undefined) return { kind: 'done' };
      await options.onEvent(eventOf(uid, change));
      if (change.deleted) added.delete(uid);
      else added.add(uid);
      if (pending.get(uid) === change) pending.delete(uid);
      return { kind: 'done' };
    },
  });

  function eventOf(uid: string, { object, deleted }: Change): ResourceEvent {
    const upserted = added.has(uid) ? ResourceEventType.Modified : ResourceEventType.Added;
    return {
      meta: ResourceMetaImpl.createWithPlural(options.plural, object),
      object,
      type: deleted ? ResourceEventType.Deleted : upserted,
    };
  }

  function put({ uid, object }: WholeObject, deleted: boolean): void {
    pending.set(uid, { object, deleted });
    queue.add(uid);
  }

  return {
    project: (object) => {
      const identity = identify(object);
      return identity && { ...identity, object };
    },
    handler: {
      upserted: (next) => put(next, false),
      deleted: (last) => put(last, true),
    },
    run: (signal) => queue.run(signal),
  };
}
