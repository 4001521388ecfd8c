import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { resourceName } from './resource.ts';
import type { ApiResource } from './source.ts';

/**
 * Registers the metrics of all reflectors; call it once for each registry. Returns the recorder of
 * a reflector.
 */
export function createReflectorMetrics(registry: Registry) {
  const labelNames = ['resource', 'namespace'] as const;
  const registers = [registry];
  const counter = (name: string, help: string) =>
    new Counter({ name: `meterfeed_${name}`, help, labelNames, registers });
  const gauge = (name: string, help: string) =>
    new Gauge({ name: `meterfeed_${name}`, help, labelNames, registers });

  const size = gauge('cache_objects', 'Objects in memory');
  const lastContact = gauge(
    'cache_last_contact_timestamp_seconds',
    'When the last list, event or bookmark of the API server arrived',
  );
  const relists = counter('cache_relists_total', 'Lists read because a watch could not resume');
  const corrections = counter(
    'cache_corrections_total',
    'Differences that the periodic comparison found, each one a lost event',
  );
  const failures = counter('watch_failures_total', 'Lists and watches that failed or were cut');
  const garbage = counter('watch_garbage_total', 'Watch lines and list items that are not objects');
  const handlers = counter(
    'watch_handler_failures_total',
    'Exceptions thrown by handlers; the watch goes on',
  );

  return (resource: ApiResource) => {
    const labels = { resource: resourceName(resource), namespace: resource.namespace ?? '' };
    corrections.inc(labels, 0);
    return {
      size: (objects: number) => size.set(labels, objects),
      /** A list, event or bookmark arrived; wall clock, milliseconds. */
      received: (at: number) => lastContact.set(labels, at / 1000),
      relist: () => relists.inc(labels),
      corrections: (count: number) => corrections.inc(labels, count),
      failure: () => failures.inc(labels),
      garbage: () => garbage.inc(labels),
      handlerFailure: () => handlers.inc(labels),
    };
  };
}

export type ReflectorMetrics = ReturnType<typeof createReflectorMetrics>;

const nothing = (): void => undefined;

/** For a reflector without metrics: thousands of them watch tenant APIs. */
export const silentRecorder: ReturnType<ReflectorMetrics> = {
  size: nothing,
  received: nothing,
  relist: nothing,
  corrections: nothing,
  failure: nothing,
  garbage: nothing,
  handlerFailure: nothing,
};

const BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300];

/**
 * Registers the metrics of all queues; call it once for each registry. Names are those of
 * client-go, so that dashboards for controllers work unchanged. Returns a queue's recorder;
 * `running` returns the seconds that each current key has run. Durations are seconds.
 */
export function createWorkQueueMetrics(registry: Registry) {
  const queues = new Map<string, () => readonly number[]>();
  const common = { labelNames: ['name'] as const, registers: [registry] };
  const depth = new Gauge({ ...common, name: 'workqueue_depth', help: 'Keys that wait' });
  const adds = new Counter({ ...common, name: 'workqueue_adds_total', help: 'Keys added' });
  const retries = new Counter({
    ...common,
    name: 'workqueue_retries_total',
    help: 'Keys put back after a failure',
  });
  const waited = new Histogram({
    ...common,
    name: 'workqueue_queue_duration_seconds',
    help: 'How long a key waited before its processing began',
    buckets: BUCKETS,
  });
  const worked = new Histogram({
    ...common,
    name: 'workqueue_work_duration_seconds',
    help: 'How long processing a key took',
    buckets: BUCKETS,
  });
  const unfinished = new Gauge({
    ...common,
    name: 'workqueue_unfinished_work_seconds',
    help: 'Seconds of work in progress that work_duration does not include yet',
    collect: () => {
      for (const [name, running] of queues) {
        unfinished.set(
          { name },
          running().reduce((sum, seconds) => sum + seconds, 0),
        );
      }
    },
  });
  const longest = new Gauge({
    ...common,
    name: 'workqueue_longest_running_processor_seconds',
    help: 'How long the longest-running key has been running',
    collect: () => {
      for (const [name, running] of queues) longest.set({ name }, Math.max(0, ...running()));
    },
  });

  return (name: string, running: () => readonly number[]) => {
    queues.set(name, running);
    depth.set({ name }, 0);
    return {
      depth: (keys: number) => depth.set({ name }, keys),
      added: () => adds.inc({ name }),
      retried: () => retries.inc({ name }),
      waited: (seconds: number) => waited.observe({ name }, seconds),
      worked: (seconds: number) => worked.observe({ name }, seconds),
    };
  };
}

export type WorkQueueMetrics = ReturnType<typeof createWorkQueueMetrics>;
