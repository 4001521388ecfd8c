import type { Clock } from '../telemetry/clock.ts';
import type { DeliveryMetrics } from './delivery-metrics.ts';
import type { Trouble } from './entry.ts';

/** How delivery to one destination is doing, for status and metrics. Counts are since the start of the process. */
export interface Health {
  accepted(events: number): void;
  rejected(events: number): void;
  retried(events: number): void;
  skipped(events: number): void;
  /** Nothing goes on, and why. */
  failed(trouble: Trouble): void;
  /** Whatever was wrong is over. */
  well(): void;
  report(): HealthReport;
}

export interface HealthReport {
  readonly delivered: number;
  readonly skipped: number;
  readonly trouble: Trouble | undefined;
  /** Milliseconds since the epoch. */
  readonly lastSuccessAt: number | undefined;
  readonly lastErrorAt: number | undefined;
}

export function createHealth(name: string, metrics: DeliveryMetrics, clock: Clock): Health {
  let delivered = 0;
  let skipped = 0;
  let trouble: Trouble | undefined;
  let lastSuccessAt: number | undefined;
  let lastErrorAt: number | undefined;
  return {
    accepted: (events) => {
      if (events === 0) return;
      delivered += events;
      metrics.delivered(name, events);
      lastSuccessAt = clock.now();
      trouble = undefined;
    },
    rejected: (events) => metrics.rejected(name, events),
    retried: (events) => metrics.retried(name, events),
    skipped: (events) => {
      skipped += events;
    },
    failed: (next) => {
      trouble = next;
      lastErrorAt = clock.now();
    },
    well: () => {
      trouble = undefined;
    },
    report: () => ({ delivered, skipped, trouble, lastSuccessAt, lastErrorAt }),
  };
}
