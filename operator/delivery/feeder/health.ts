import { omitUndefined } from '../../model/omit-undefined.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { DeliveryMetrics } from '../delivery-metrics.ts';
import type { BlockReason } from '../delivery-result.ts';
import type { DestinationStatus } from '../destination-status.ts';

/** How delivery to one destination is doing, for status and metrics. Counts are since the start of the process. */
export interface Health {
  accepted(events: number): void;
  rejected(events: number): void;
  retried(events: number): void;
  skipped(events: number): void;
  /** Nothing goes on, and why. */
  blocked(reason: BlockReason): void;
  /** Whatever was wrong is over. */
  recovered(): void;
  report(): HealthReport;
}

export interface HealthReport
  extends Pick<
    DestinationStatus,
    'delivered' | 'skipped' | 'held' | 'lastSuccessAt' | 'lastError' | 'lastErrorAt'
  > {
  /** Nothing goes on at the moment. */
  readonly isBlocked: boolean;
}

export function createHealth(name: string, metrics: DeliveryMetrics, clock: Clock): Health {
  let delivered = 0;
  let skipped = 0;
  let current: BlockReason | undefined;
  let lastSuccessAt: number | undefined;
  let blockedAt: number | undefined;
  return {
    accepted: (events) => {
      if (events === 0) return;
      delivered += events;
      metrics.delivered(name, events);
      lastSuccessAt = clock.now();
      current = undefined;
    },
    rejected: (events) => metrics.rejected(name, events),
    retried: (events) => metrics.retried(name, events),
    skipped: (events) => {
      skipped += events;
    },
    blocked: (reason) => {
      current = reason;
      blockedAt = clock.now();
    },
    recovered: () => {
      current = undefined;
    },
    report: () => ({
      delivered,
      skipped,
      isBlocked: current !== undefined,
      ...omitUndefined({
        held: current?.kind === 'hold' ? current.reason : undefined,
        lastSuccessAt,
        lastError: current?.reason,
        lastErrorAt: current === undefined ? undefined : blockedAt,
      }),
    }),
  };
}
