import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Ledger, RecordChange } from '../ledger/ledger.ts';
import { errorText } from '../model/error-text.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { clusterChanges, type MeterReport, putReport, readClusterTexts } from './meter-report.ts';

export interface MeterReporterOptions {
  /** That of the meter. */
  readonly ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords'>;
  readonly report: () => Omit<MeterReport, 'beat' | 'revision'>;
  /** Undefined before tenant clusters are known. */
  readonly clusters: () => readonly TenantCluster[] | undefined;
  /** Grows with every round of discovery that may have changed tenants. */
  readonly rounds: () => number;
  /** Accepts departures of tenants, which a hub reads then; called before each report. */
  readonly acceptDepartures?: () => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

const REPORT_EVERY_MS = 5_000;

/** Writes what the meter of a stream tells of itself, until the signal is aborted. What cannot be written now is written with the next round. */
export async function reportMeter(
  options: MeterReporterOptions,
  signal: AbortSignal,
): Promise<void> {
  const { clock, logger } = options;
  const reporter = new MeterReporter(options);
  let said = '';
  while (!signal.aborted) {
    const problem = await reporter.round().catch(errorText);
    if (problem !== undefined && problem !== said) logger.warn(`[fleet] ${problem}`);
    said = problem ?? '';
    await clock.sleep(REPORT_EVERY_MS, signal).catch(() => undefined);
  }
}

class MeterReporter {
  readonly #options: MeterReporterOptions;
  readonly #startedAt: number;
  #beat = 0;
  #clusters: ReadonlyMap<string, string> | undefined;

  constructor(options: MeterReporterOptions) {
    this.#options = options;
    this.#startedAt = options.clock.now();
  }

  /** Gives why nothing was written; undefined when it was. */
  async round(): Promise<string | undefined> {
    const { ledger } = this.#options;
    await this.#options.acceptDepartures?.();
    const stored = this.#clusters ?? (await readClusterTexts(ledger));
    const clusters = this.#options.clusters();
    const changed = clusters === undefined ? [] : clusterChanges(stored, clusters);
    const records: readonly RecordChange[] = [
      ...changed,
      putReport({
        ...this.#options.report(),
        beat: this.#beat + 1,
        revision: `${this.#startedAt}/${this.#options.rounds()}`,
      }),
    ];
    const outcome = await ledger.writeRecords(records);
    if (outcome.kind === 'failed') return outcome.message;
    this.#beat += 1;
    if (clusters !== undefined) {
      this.#clusters = new Map(clusters.map((cluster) => [cluster.id, JSON.stringify(cluster)]));
    }
    return undefined;
  }
}
