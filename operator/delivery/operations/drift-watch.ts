import type { Registry } from 'prom-client';
import type { Ledger } from '../../ledger/ledger.ts';
import { errorText } from '../../model/error-text.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Delivery } from '../delivery.ts';
import { gaugesBy } from '../../telemetry/gauges.ts';
import { isDrift, type ReconcileRow } from './reconcile.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Interval between checks whether a comparison is due. */
const CHECK_EVERY_MS = 600_000;
/** Wait after the end of a day before its comparison. Billing systems need time to add up. */
const SETTLING_MS = HOUR_MS;
/** Wait before a comparison with differences, or without answers, is repeated. */
const AGAIN_AFTER_MS = HOUR_MS;
/**
 * Most rows that are queried at a destination for one day. A larger fleet is compared in parts,
 * another part each day.
 */
const MAX_QUESTIONS = 5_000;

/** Compares yesterday's sums at every destination in the background, and logs differences. */
export class DriftWatch {
  readonly #options;
  readonly #reports = new Map<string, DriftReport>();

  constructor(options: {
    readonly delivery: Pick<Delivery, 'statuses' | 'reconcile'>;
    readonly ledger: Pick<Ledger, 'stats'>;
    readonly clock: Clock;
    /** Numbers in [0, 1). */
    readonly random: () => number;
    readonly logger: Logger;
    readonly registry: Registry;
  }) {
    this.#options = options;
    const current = () =>
      options.delivery.statuses().flatMap(({ name }) => {
        const report = this.#reports.get(name);
        return report === undefined ? [] : [[name, report] as const];
      });
    const gauge = gaugesBy(options.registry, 'destination', current);
    gauge(
      'meterfeed_destination_drift_rows',
      'Pairs of tenant and metric whose sum of yesterday at the destination differs from the delivered sum',
      ({ differing }) => differing,
    );
    gauge(
      'meterfeed_destination_drift_compared_timestamp_seconds',
      'When yesterday was last compared at the destination',
      ({ comparedAt }) => comparedAt / 1000,
    );
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#options.clock.sleep(CHECK_EVERY_MS, signal).catch(() => undefined);
      if (!signal.aborted) await this.#checkAll(signal);
    }
  }

  /** Returns the last comparison at a destination; undefined before the first. */
  reportOf(destination: string): DriftReport | undefined {
    return this.#reports.get(destination);
  }

  async #checkAll(signal: AbortSignal): Promise<void> {
    const { delivery, ledger, clock, logger } = this.#options;
    const now = clock.now();
    const day = Math.floor(now / DAY_MS) * DAY_MS - DAY_MS;
    // Deleted events cannot be added up.
    if (ledger.stats().horizon > day) return;
    for (const { name, suspended, bootstrapped } of delivery.statuses()) {
      if (signal.aborted || suspended || !bootstrapped || !this.#isDue(name, day, now)) continue;
      try {
        await this.#compare(name, day, signal);
      } catch (error) {
        if (signal.aborted) return;
        logger.warn(`[${name}] yesterday could not be compared: ${errorText(error)}`);
      }
    }
  }

  #isDue(name: string, day: number, now: number): boolean {
    if (now < day + DAY_MS + SETTLING_MS) return false;
    const last = this.#reports.get(name);
    if (last?.day !== day) return true;
    const settled = last.differing === 0 && last.unanswered === 0;
    return !settled && now - last.comparedAt >= AGAIN_AFTER_MS;
  }

  async #compare(name: string, day: number, signal: AbortSignal): Promise<void> {
    const { delivery, clock, logger, random } = this.#options;
    const range = { from: day, to: day + DAY_MS };
    const query = { ...range, questions: MAX_QUESTIONS, beginAt: random() };
    const outcome = await delivery.reconcile(name, query, signal);
    if (signal.aborted || outcome.kind === 'unknown-destination') return;
    if (outcome.kind === 'failed') {
      logger.warn(`[${name}] yesterday could not be compared: ${outcome.reason}`);
      return;
    }
    const report = driftReport(day, outcome.rows, clock.now());
    this.#reports.set(name, report);
    const [first] = report.examples;
    if (first === undefined) return;
    const date = new Date(day).toISOString().slice(0, 10);
    logger.warn(
      `[${name}] ${report.differing} sums of ${date} differ from what was delivered, such as ${first.metric} of ${first.tenant} by ${first.difference}`,
    );
  }
}

const MAX_EXAMPLES = 20;

/** The comparison of one day at one destination. */
export interface DriftReport {
  /** Start of the UTC day, milliseconds since the epoch. */
  readonly day: number;
  /** Milliseconds since the epoch. */
  readonly comparedAt: number;
  /** Number of compared pairs of tenant and metric. */
  readonly compared: number;
  /** Number of pairs without an answer, or beyond the limit of one day. */
  readonly unanswered: number;
  readonly differing: number;
  /** The first pairs that differ, at most twenty. */
  readonly examples: readonly {
    readonly tenant: string;
    readonly metric: string;
    /** Sum at the destination − delivered sum, plain decimal text; may be negative. */
    readonly difference: string;
  }[];
}

export function driftReport(
  day: number,
  rows: readonly ReconcileRow[],
  comparedAt: number,
): DriftReport {
  const differing = rows.flatMap(({ tenant, metric, delivered, difference = '0' }) =>
    isDrift(delivered, difference) ? [{ tenant, metric, difference }] : [],
  );
  return {
    day,
    comparedAt,
    compared: rows.filter(({ difference }) => difference !== undefined).length,
    unanswered: rows.filter(({ difference }) => difference === undefined).length,
    differing: differing.length,
    examples: differing.slice(0, MAX_EXAMPLES),
  };
}
