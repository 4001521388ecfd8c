import type { Clock } from '../../telemetry/clock.ts';
import type { DeliveryMetrics } from '../delivery-metrics.ts';
import type { BlockReason } from '../delivery-result.ts';
import type { DestinationStatus } from '../destination-status.ts';

type HealthReport = Pick<
  DestinationStatus,
  'delivered' | 'skipped' | 'blocked' | 'lastSuccessAt' | 'lastError' | 'lastErrorAt'
>;

/** Health of delivery to one destination, for status and metrics. Counts since the start. */
export class Health {
  readonly #name: string;
  readonly #metrics: DeliveryMetrics;
  readonly #clock: Pick<Clock, 'now'>;
  #delivered = 0;
  #skipped = 0;
  #current: BlockReason | undefined;
  #lastSuccessAt: number | undefined;
  #blockedAt: number | undefined;

  constructor(name: string, metrics: DeliveryMetrics, clock: Pick<Clock, 'now'>) {
    this.#name = name;
    this.#metrics = metrics;
    this.#clock = clock;
  }

  /** Whether delivery is blocked at the moment. */
  get isBlocked(): boolean {
    return this.#current !== undefined;
  }

  accepted(events: number): void {
    if (events === 0) return;
    this.#delivered += events;
    this.#metrics.delivered(this.#name, events);
    this.#lastSuccessAt = this.#clock.now();
    this.#current = undefined;
  }

  rejected(events: number): void {
    this.#metrics.rejected(this.#name, events);
  }

  retried(events: number): void {
    this.#metrics.retried(this.#name, events);
  }

  skipped(events: number): void {
    this.#skipped += events;
  }

  /** Notes why delivery is blocked. */
  blocked(reason: BlockReason): void {
    this.#current = reason;
    this.#blockedAt = this.#clock.now();
  }

  /** Clears the reason why delivery was blocked. */
  recovered(): void {
    this.#current = undefined;
  }

  report(): HealthReport {
    const current = this.#current;
    return {
      delivered: this.#delivered,
      skipped: this.#skipped,
      blocked: current?.kind === 'blocked' ? current.reason : undefined,
      lastSuccessAt: this.#lastSuccessAt,
      lastError: current?.reason,
      lastErrorAt: current === undefined ? undefined : this.#blockedAt,
    };
  }
}
