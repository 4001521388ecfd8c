import { Counter, type Registry } from 'prom-client';
import type { ComparedBook } from '../../destinations/prices.ts';
import type { PriceBook } from '../../model/price-book.ts';
import { errorText } from '../../model/error-text.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import { differenceText } from '../../pricing/compare.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Delivery } from '../delivery.ts';
import { destinationGauge } from '../destination-gauge.ts';
import type { PriceQuestion } from './price-comparison.ts';

/** How often it is looked whether a comparison is due. */
const CHECK_EVERY_MS = 60_000;
/** Prices over there are changed by people, at any time. */
const COMPARE_EVERY_MS = 3_600_000;
/** After a comparison that failed. */
const RETRY_MS = 600_000;
/** After an attempt to make prices that failed: usage may be charged by the old ones meanwhile. */
const RETRY_MANAGING_MS = 60_000;
const MAX_EXAMPLES = 3;

/**
 * Holds the price books against every destination in the background, and tells what differs. Where a destination is to
 * have the books' prices, they are made so first.
 */
export interface PriceWatch {
  run(signal: AbortSignal): Promise<void>;
  /** The last comparison at a destination; undefined before the first, and where no book concerns it. */
  reportOf(destination: string): PriceReport | undefined;
}

/** What came of holding the price books against a destination. */
export interface PriceReport {
  /** Prices that are not as a book says, of plans that there are. */
  readonly differing: number;
  /** The first of them, a line each. */
  readonly examples: readonly string[];
  /** Why prices are not made those of the books, the first of them; absent where they are not to be. */
  readonly failures?: readonly string[];
}

export interface PriceWatchOptions {
  readonly delivery: Pick<Delivery, 'statuses' | 'comparePrices' | 'managePrices'>;
  readonly prices: () => Omit<PriceQuestion, 'day'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: Registry;
}

interface Compared {
  readonly by: readonly PriceBook[];
  readonly day: string;
  readonly againAt: number;
  /** Whether prices were to be made those of the books. */
  readonly managed: boolean;
  /** That of the last comparison that succeeded. */
  readonly report?: PriceReport | undefined;
  /** Why the last comparison failed, if it did. */
  readonly failure?: string;
}

export function createPriceWatch(options: PriceWatchOptions): PriceWatch {
  return new BackgroundPriceWatch(options);
}

class BackgroundPriceWatch implements PriceWatch {
  readonly #options: PriceWatchOptions;
  readonly #compared = new Map<string, Compared>();
  readonly #changes: Counter<'destination'>;

  constructor(options: PriceWatchOptions) {
    this.#options = options;
    destinationGauge(
      options.registry,
      {
        name: 'meterfeed_destination_price_differences',
        help: 'Prices that the destination has otherwise than the PriceBooks say',
      },
      () => this.#reports(),
      ({ differing }) => differing,
    );
    destinationGauge(
      options.registry,
      {
        name: 'meterfeed_destination_price_failures',
        help: 'Reasons why prices of the destination are not made those of the PriceBooks, where they are to be',
      },
      () => this.#reports().filter(([, { failures }]) => failures !== undefined),
      ({ failures = [] }) => failures.length,
    );
    this.#changes = new Counter({
      name: 'meterfeed_destination_price_changes_total',
      help: 'Prices, charges and plans made, changed or ended at the destination',
      labelNames: ['destination'],
      registers: [options.registry],
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    while (!signal.aborted) {
      await this.#round(signal);
      await clock.sleep(CHECK_EVERY_MS, signal).catch(() => undefined);
    }
  }

  reportOf(destination: string): PriceReport | undefined {
    return this.#compared.get(destination)?.report;
  }

  #reports(): readonly (readonly [string, PriceReport])[] {
    return this.#options.delivery.statuses().flatMap(({ name }) => {
      const report = this.reportOf(name);
      return report === undefined ? [] : [[name, report] as const];
    });
  }

  async #round(signal: AbortSignal): Promise<void> {
    const { delivery, clock, logger, prices } = this.#options;
    const statuses = delivery.statuses();
    const names = new Set(statuses.map(({ name }) => name));
    for (const name of this.#compared.keys()) if (!names.has(name)) this.#compared.delete(name);
    const day = new Date(clock.now()).toISOString().slice(0, 10);
    for (const { name, suspended, bootstrapped, managesPrices: managed = false } of statuses) {
      const question = { ...prices(), day };
      if (signal.aborted || suspended || !bootstrapped) continue;
      if (!this.#isDue(name, question, managed)) continue;
      try {
        await this.#look(name, question, managed, signal);
      } catch (error) {
        if (signal.aborted) return;
        logger.warn(`[${name}] prices could not be compared: ${errorText(error)}`);
      }
    }
  }

  #isDue(name: string, { books, day }: PriceQuestion, managed: boolean): boolean {
    const last = this.#compared.get(name);
    if (last === undefined || last.by !== books || last.day !== day) return true;
    if (last.managed !== managed) return true;
    return this.#options.clock.monotonic() >= last.againAt;
  }

  async #look(
    name: string,
    question: PriceQuestion,
    managed: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const { delivery, clock, logger } = this.#options;
    const { books: by, day } = question;
    const known = this.#compared.get(name);
    const before = known?.report;
    const keep = (found: PriceReport | undefined, afterMs: number, failure?: string): void => {
      const againAt = clock.monotonic() + afterMs;
      const report = withFailures(found, failures);
      this.#compared.set(name, {
        by,
        day,
        againAt,
        managed,
        report,
        ...omitUndefined({ failure }),
      });
    };
    // Until it has succeeded, what was found last holds.
    let failures = managed ? before?.failures : undefined;
    keep(before, RETRY_MS, known?.failure);
    if (managed) failures = await this.#manage(name, question, before?.failures ?? [], signal);
    const isBehind = failures !== undefined && failures.length > 0;
    const outcome = await delivery.comparePrices(name, question, signal);
    if (signal.aborted || outcome.kind === 'unknown-destination') return;
    if (outcome.kind === 'failed' || outcome.kind === 'unusable') {
      const { reason } = outcome;
      keep(before, isBehind ? RETRY_MANAGING_MS : RETRY_MS, reason);
      // A key without the permission to read prices would fill the log otherwise.
      if (reason !== known?.failure) {
        logger.warn(`[${name}] prices could not be compared: ${reason}`);
      }
      return;
    }
    const report = outcome.kind === 'compared' ? priceReport(outcome.books) : undefined;
    keep(report, isBehind ? RETRY_MANAGING_MS : COMPARE_EVERY_MS);
    const [first] = report?.examples ?? [];
    if (report === undefined || first === undefined || first === before?.examples[0]) return;
    logger.warn(`[${name}] ${report.differing} prices differ from the PriceBooks: ${first}`);
  }

  /** Makes the prices there those of the books; why that did not succeed, if so. */
  async #manage(
    name: string,
    question: PriceQuestion,
    before: readonly string[],
    signal: AbortSignal,
  ): Promise<readonly string[] | undefined> {
    const { delivery, logger } = this.#options;
    const outcome = await delivery.managePrices(name, question, signal);
    if (outcome.kind !== 'managed' && outcome.kind !== 'failed') return undefined;
    const managed = outcome.kind === 'managed';
    for (const change of managed ? outcome.changes : []) logger.info(`[${name}] prices: ${change}`);
    this.#changes.inc({ destination: name }, managed ? outcome.changes.length : 0);
    const failures = managed ? outcome.failures : [outcome.reason];
    // What cannot be done would fill the log otherwise.
    for (const failure of failures.filter((one) => !before.includes(one))) {
      logger.warn(`[${name}] prices are not as the PriceBooks say: ${failure}`);
    }
    return failures;
  }
}

/** What is known of prices that are to be made is told also where nothing could be compared. */
function withFailures(
  report: PriceReport | undefined,
  failures: readonly string[] | undefined,
): PriceReport | undefined {
  const { differing, examples } = report ?? { differing: 0, examples: [] };
  if (failures === undefined) return report && { differing, examples };
  return { differing, examples, failures };
}

/** Undefined where no plan of a book is there: nothing over there is meant by them. */
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
