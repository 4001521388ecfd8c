import { Counter, Gauge, type Registry } from 'prom-client';
import { resourceName } from './paths.ts';
import type { ApiResource } from './source.ts';

/** What one reflector counts. */
export interface ReflectorRecorder {
  readonly size: (objects: number) => void;
  readonly contact: (at: number) => void;
  readonly relist: () => void;
  readonly corrections: (count: number) => void;
  readonly failure: () => void;
  readonly garbage: () => void;
  readonly handlerFailure: () => void;
}

/** The series of all reflectors on one registry; create it once. */
export interface ReflectorMetrics {
  recorder(resource: ApiResource): ReflectorRecorder;
}

export function createReflectorMetrics(registry: Registry): ReflectorMetrics {
  const labelNames = ['resource', 'namespace'] as const;
  const registers = [registry];
  const counter = (name: string, help: string) =>
    new Counter({ name: `meterfeed_${name}`, help, labelNames, registers });
  const gauge = (name: string, help: string) =>
    new Gauge({ name: `meterfeed_${name}`, help, labelNames, registers });

  const size = gauge('cache_objects', 'Objects held in memory');
  const contact = gauge(
    'cache_last_contact_timestamp_seconds',
    'When the API server was last heard of, by list, event or bookmark',
  );
  const relists = counter('cache_relists_total', 'Lists read because a watch could not resume');
  const corrections = counter(
    'cache_corrections_total',
    'Differences that the periodic comparison found, each one a lost event',
  );
  const failures = counter('watch_failures_total', 'Lists and watches that failed or were cut');
  const garbage = counter('watch_garbage_total', 'Watch lines and list items that are no objects');
  const handlers = counter('watch_handler_failures_total', 'Exceptions of handlers, contained');

  return {
    recorder: (resource) => {
      const labels = { resource: resourceName(resource), namespace: resource.namespace ?? '' };
      corrections.inc(labels, 0);
      return {
        size: (objects) => size.set(labels, objects),
        contact: (at) => contact.set(labels, at / 1000),
        relist: () => relists.inc(labels),
        corrections: (count) => corrections.inc(labels, count),
        failure: () => failures.inc(labels),
        garbage: () => garbage.inc(labels),
        handlerFailure: () => handlers.inc(labels),
      };
    },
  };
}

const nothing = (): void => undefined;

/** For a reflector without a registry. */
export const silentRecorder: ReflectorRecorder = {
  size: nothing,
  contact: nothing,
  relist: nothing,
  corrections: nothing,
  failure: nothing,
  garbage: nothing,
  handlerFailure: nothing,
};
