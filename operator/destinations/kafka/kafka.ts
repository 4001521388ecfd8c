import type { MetricDefinition } from '../../model/catalog.ts';
import type { UsageEvent } from '../../model/event.ts';
import { createGuardedLookup } from '../../outbound/address-guard.ts';
import { Announcements } from '../announcements.ts';
import {
  type LifecycleEvent,
  lifecycleCloudEvent,
  sourceProblem,
  usageCloudEvent,
} from '../cloud-events.ts';
import type {
  DeliveryOutcome,
  Destination,
  DestinationContext,
  DestinationLimits,
  StepOutcome,
} from '../destination.ts';
import { SizedEvents } from '../sized-events.ts';
import type { KafkaWriteOutcome } from './outcome.ts';
import { type KafkaRecord, recordBytes, recordOf } from './record.ts';
import { type KafkaSettings, loginProblem } from './settings.ts';
import { TopicWriter } from './topic-writer.ts';

/**
 * Writes CloudEvents 1.0 to a topic, keyed by tenant (docs/how-to/destinations/kafka.md). It takes
 * every metric, informational ones included, and also publishes tenants and the catalogue. The
 * constructor throws a TypeError for settings that cannot be used.
 */
export class Kafka implements Destination {
  readonly name: string;
  readonly type = 'kafka';
  readonly customers: Announcements;
  readonly notices: Announcements;
  readonly #settings: KafkaSettings;
  readonly #writer: TopicWriter;
  readonly #records: SizedEvents<KafkaRecord>;

  constructor(name: string, settings: KafkaSettings, { clock, logger }: DestinationContext) {
    const problem = sourceProblem(settings.source) ?? loginProblem(settings);
    if (problem !== undefined) throw new TypeError(problem);
    this.name = name;
    this.#settings = settings;
    this.#writer = new TopicWriter(settings, createGuardedLookup());
    const { source, contentMode } = settings;
    this.#records = new SizedEvents(
      (event) => recordOf(usageCloudEvent(event, source), contentMode),
      recordBytes,
    );
    this.customers = new Announcements({
      name,
      source: settings.source,
      post: (event, signal) => this.#announce(event, signal),
      clock,
      logger,
    });
    this.notices = this.customers;
  }

  get limits(): DestinationLimits {
    return this.#records.limits;
  }

  accepts(): boolean {
    return true;
  }

  bootstrap(catalog: readonly MetricDefinition[], signal: AbortSignal): Promise<StepOutcome> {
    return this.customers.bootstrap(catalog, signal);
  }

  async send(
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryOutcome[]> {
    const records = this.#records.take(events);
    const outcomes = await this.#writer.append(records, signal);
    if (outcomes.some((outcome) => outcome.kind === 'split' && outcome.tooLarge)) {
      this.#records.halve(records.reduce((sum, record) => sum + recordBytes(record), 0));
    }
    return outcomes.map(deliveryOutcome);
  }

  close(): Promise<void> {
    return this.#writer.close();
  }

  async #announce(event: LifecycleEvent, signal: AbortSignal): Promise<KafkaWriteOutcome> {
    const record = recordOf(lifecycleCloudEvent(event), this.#settings.contentMode);
    const [outcome] = await this.#writer.append([record], signal);
    return outcome ?? { kind: 'delivered' };
  }
}

function deliveryOutcome(outcome: KafkaWriteOutcome): DeliveryOutcome {
  return outcome.kind === 'split' ? { kind: 'split', reason: outcome.reason } : outcome;
}
