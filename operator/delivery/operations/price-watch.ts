import type { Registry } from 'prom-client';
import type { ComparedBook } from '../../destinations/prices.ts';
import type { PriceBook } from '../../model/price-book.ts';
import { errorText } from '../../model/error-text.ts';
import { differenceText } from '../../model/pricing/compare.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Delivery } from '../delivery.ts';
import { gaugesBy } from '../../telemetry/gauges.ts';
import type { PriceQuestion } from './price-comparison.ts';

/** Interval between checks whether one is due. A change of a PriceBook causes one at once. */
const CHECK_EVERY_MS = 60_000;
/** Interval between comparisons. People change prices at a destination at any time. */
const COMPARE_EVERY_MS = 3_600_000;
/** Wait after a failed comparison. */
const RETRY_MS = 600_000;
const MAX_EXAMPLES = 3;

/** The comparison of the price books with a destination. */
export interface PriceReport {
  /** Number of prices that differ from a book, among plans that exist at the destination. */
  readonly differing: number;
  /** The first differences, one line each, at most three. */
  readonly examples: readonly string[];
}

interface Compared {
  readonly by: readonly PriceBook[];
  readonly day: string;
  readonly againAt: number;
  /** The report of the last successful comparison. */
  readonly report?: PriceReport;
  /** Why the last comparison failed; absent if it succeeded. */
  readonly failure?: string;
}

/** Compares the price books with every destination in the background, and reports what differs. */
export class PriceWatch {
  readonly #options;
  readonly #compared = new Map<string, Compared>();

  constructor(options: {
    readonly delivery: Pick<Delivery, 'statuses' | 'comparePrices'>;
    readonly prices: () => Omit<PriceQuestion, 'day'>;
    /** Calls `listener` when prices may have changed; returns the function that unsubscribes. */
    readonly subscribe: (listener: () => void) => () => void;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly registry: Registry;
  }) {
    this.#options = options;
    const gauge = gaugesBy(options.registry, 'destination', () => this.#reports());
    gauge(
      'meterfeed_destination_price_differences',
      'Prices at the destination that differ from the PriceBooks',
      ({ differing }) => differing,
    );
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, subscribe } = this.#options;
    let changed = new AbortController();
    const unsubscribe = subscribe(() => changed.abort());
    while (!signal.aborted) {
      await this.#checkAll(signal);
      const either = AbortSignal.any([signal, changed.signal]);
      await clock.sleep(CHECK_EVERY_MS, either).catch(() => undefined);
      if (changed.signal.aborted) changed = new AbortController();
    }
    unsubscribe();
  }

  /**
   * Returns the last comparison at a destination; undefined before the first, and where no book
   * concerns it.
   */
  reportOf(destination: string): PriceReport | undefined {
    return this.#compared.get(destination)?.report;
  }

  #reports(): readonly (readonly [string, PriceReport])[] {
    return this.#options.delivery.statuses().flatMap(({ name }) => {
      const report = this.reportOf(name);
      return report === undefined ? [] : [[name, report] as const];
    });
  }

  async #checkAll(signal: AbortSignal): Promise<void> {
    const { delivery, clock, logger, prices } = this.#options;
    const statuses = delivery.statuses();
    const names = new Set(statuses.map(({ name }) => name));
    for (const name of this.#compared.keys()) if (!names.has(name)) this.#compared.delete(name);
    const day = new Date(clock.now()).toISOString().slice(0, 10);
    for (const { name, suspended, bootstrapped } of statuses) {
      const question = { ...prices(), day };
      if (signal.aborted || suspended || !bootstrapped) continue;
      if (!this.#isDue(name, question)) continue;
      try {
        await this.#compare(name, question, signal);
      } catch (error) {
        if (signal.aborted) return;
        logger.warn(`[${name}] prices could not be compared: ${errorText(error)}`);
      }
    }
  }

  #isDue(name: string, { books, day }: PriceQuestion): boolean {
    const last = this.#compared.get(name);
    if (last === undefined || last.by !== books || last.day !== day) return true;
    return this.#options.clock.monotonic() >= last.againAt;
  }

  async #compare(name: string, question: PriceQuestion, signal: AbortSignal): Promise<void> {
    const { delivery, clock, logger } = this.#options;
    const { books: by, day } = question;
    const known = this.#compared.get(name);
    const before = known?.report;
    const store = (report: PriceReport | undefined, afterMs: number, failure?: string): void => {
      const againAt = clock.monotonic() + afterMs;
      this.#compared.set(name, { by, day, againAt, report, failure });
    };
    // The last report stays until a comparison succeeds.
    store(before, RETRY_MS, known?.failure);
    const outcome = await delivery.comparePrices(name, question, signal);
    if (signal.aborted || outcome.kind === 'unknown-destination') return;
    if (outcome.kind === 'failed' || outcome.kind === 'unusable') {
      const { reason } = outcome;
      store(before, RETRY_MS, reason);
      // Logs each reason once. A key without permission to read prices would otherwise fill the
      // log.
      if (reason !== known?.failure) {
        logger.warn(`[${name}] prices could not be compared: ${reason}`);
      }
      return;
    }
    const report = outcome.kind === 'compared' ? priceReport(outcome.books) : undefined;
    store(report, COMPARE_EVERY_MS);
    const [first] = report?.examples ?? [];
    if (report === undefined || first === undefined || first === before?.examples[0]) return;
    logger.warn(`[${name}] ${report.differing} prices differ from the PriceBooks: ${first}`);
  }
}

/** Builds the report; undefined if no plan of a book exists at the destination. */
export function priceReport(books: readonly ComparedBook[]): PriceReport | undefined {
  const present = books.filter(({ exists }) => exists);
  if (present.length === 0) return undefined;
  const texts = present.flatMap(({ plan, differences }) =>
    differences.flatMap((difference) => {
      const text = differenceText(difference);
      return text === undefined ? [] : [`plan "${plan}": ${text}`];
    }),
  );
  return { differing: texts.length, examples: texts.slice(0, MAX_EXAMPLES) };
}
