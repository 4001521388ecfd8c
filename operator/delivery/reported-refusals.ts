import type { LateRefusal } from '../destinations/destination.ts';
import type { RecordChange, WriteOutcome } from '../ledger/ledger.ts';
import type { DestinationType } from '../model/destination-type.ts';
import type { DeliveryOptions } from './delivery-options.ts';

const PREFIX = 'reported/';
/** Seven days: a report of a Friday evening is still visible on Monday. */
const SHOWN_MS = 7 * 86_400_000;

/**
 * Usage that billing systems accepted and do not bill, as they report it by webhook. There is one
 * entry for each type of billing system and reason, in memory and in the ledger. A webhook arrives
 * once, so only the ledger remembers it.
 */
export class ReportedRefusals {
  readonly #options: Pick<DeliveryOptions, 'ledger' | 'clock' | 'logger'>;
  readonly #byType = new Map<string, readonly LateRefusal[]>();

  constructor(options: Pick<DeliveryOptions, 'ledger' | 'clock' | 'logger'>) {
    this.#options = options;
  }

  /** Reads the reports from the ledger. Throws if the ledger cannot be read. */
  async load(): Promise<void> {
    for await (const [key, value] of this.#options.ledger.records(PREFIX)) {
      this.#byType.set(key.slice(PREFIX.length), JSON.parse(value) as readonly LateRefusal[]);
    }
  }

  /** The reports of the last seven days. */
  of(type: DestinationType): readonly LateRefusal[] {
    const since = this.#options.clock.now() - SHOWN_MS;
    return (this.#byType.get(type) ?? []).filter(({ at }) => at > since);
  }

  /**
   * Durably adds a report and adds up the events of one reason. Writes `more` in the same
   * transaction. Throws if the ledger cannot be read.
   */
  async add(
    type: DestinationType,
    refusals: readonly LateRefusal[],
    more: readonly RecordChange[],
  ): Promise<WriteOutcome> {
    const { ledger, logger } = this.#options;
    await this.load();
    const byReason = new Map(this.of(type).map((one) => [one.reason, one]));
    for (const one of refusals) {
      const before = byReason.get(one.reason)?.events ?? 0;
      byReason.set(one.reason, { ...one, events: before + one.events });
    }
    const all = [...byReason.values()];
    const record = { key: PREFIX + type, value: JSON.stringify(all) };
    const outcome = await ledger.writeRecords([record, ...more]);
    if (outcome.kind === 'failed') return outcome;
    this.#byType.set(type, all);
    for (const { events, reason, example = 'unknown' } of refusals) {
      logger.error(
        `[${type}] ${events} events were taken and are not billed, such as ${example}: ${reason}`,
      );
    }
    return outcome;
  }
}
