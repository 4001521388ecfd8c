import type { UsageEvent } from '../../model/event.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type {
  DeliveryOutcome,
  Destination,
  DestinationContext,
  StepOutcome,
} from '../destination.ts';

/** Discards every event, and logs it at level debug. */
export class Noop implements Destination {
  readonly name: string;
  readonly type = 'noop';
  readonly limits = { batchEvents: 500, negativeQuantities: true } as const;
  readonly #logger: Logger;

  constructor(name: string, { logger }: DestinationContext) {
    this.name = name;
    this.#logger = logger;
  }

  accepts(): boolean {
    return true;
  }

  async bootstrap(): Promise<StepOutcome> {
    return { kind: 'done' };
  }

  async send(events: readonly UsageEvent[]): Promise<readonly DeliveryOutcome[]> {
    for (const { tenant, metric, quantity } of events) {
      this.#logger.debug(
        `[${this.name}] event tenant=${tenant} metric=${metric} quantity=${quantity}`,
      );
    }
    return events.map(() => ({ kind: 'delivered' }));
  }

  async close(): Promise<void> {}
}
