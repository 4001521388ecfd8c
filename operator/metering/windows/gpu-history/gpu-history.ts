import { type Ledger, LedgerReadError, type RecordChange } from '../../../ledger/ledger.ts';
import { periodOf, PERIOD_MS } from '../../../model/periods.ts';
import { formatInstant } from '../../../model/window.ts';
import type { Clock } from '../../../telemetry/clock.ts';
import type { Logger } from '../../../telemetry/logger.ts';
import type { TimeSlice } from '../../../telemetry/time-slice.ts';
import type { AppendEnd } from '../appender.ts';
import {
  decodeGpuRows,
  encodeGpuRow,
  gpuRecord,
  type GpuRow,
  GpuRows,
  type GpuSeries,
} from './gpu-series.ts';

/** Record kinds of a series: one per window, and sums of windows by the hour or day they start. */
export type GpuPeriodKind = 'window' | 'hour' | 'day';

const KINDS: readonly GpuPeriodKind[] = ['window', 'hour', 'day'];

/** Windows: the longest range shown by window. Hours and days: as long as usage sums. */
export const GPU_RETENTION_MS: Readonly<Record<GpuPeriodKind, number>> = {
  window: 26 * PERIOD_MS.hour,
  hour: 35 * PERIOD_MS.day,
  day: 400 * PERIOD_MS.day,
};

/**
 * Limit for all window records of a series. There are many, and each is copied once a day, so the
 * largest fleets have fewer windows.
 */
const MOST_WINDOW_CHARACTERS = 16 * 2 ** 20;

const PREFIX = 'gpus/';
const RETRY_MS = 1_000;
/** About a millisecond of work. */
const ROWS_AT_A_STRETCH = 200;

/** The key of a record. With an empty period: the key prefix of a kind. */
export function gpuKey({ name }: GpuSeries, kind: GpuPeriodKind, period: string): string {
  return `${PREFIX}${name}/${kind}/${period}`;
}

/** The period in which a window starts: `2026-11-21T09:01:00Z`, `2026-11-21T09` or `2026-11-21`. */
export function gpuPeriod(kind: GpuPeriodKind, start: number): string {
  const instant = formatInstant(start);
  return kind === 'window' ? instant : periodOf(kind, instant);
}

export interface GpuHistoryOptions {
  readonly series: GpuSeries;
  readonly ledger: Pick<Ledger, 'record' | 'records'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * A series as records of the ledger. The batch that has a window's events has its records too, so
 * that each window counts once however the process ends. It is the only writer of its records.
 */
export class GpuHistory {
  readonly #options: GpuHistoryOptions;
  /** Characters of each stored record, by kind and key; undefined before the first load. */
  #stored: ReadonlyMap<GpuPeriodKind, Map<string, number>> | undefined;
  /** Sums of the periods that were loaded last, by key. */
  #loaded = new Map<string, GpuRows>();

  constructor(options: GpuHistoryOptions) {
    this.#options = options;
  }

  /**
   * Reads the sums that the window starting at `start` adds to. Call it before {@link add}. Retries
   * while the ledger cannot be reached. Returns the end if its bytes are damaged or the signal
   * aborts.
   */
  async load(start: number, signal: AbortSignal): Promise<AppendEnd | undefined> {
    const { clock, logger, series } = this.#options;
    while (!signal.aborted) {
      try {
        this.#stored ??= await this.#list();
        await this.#read(start);
        return undefined;
      } catch (error) {
        if (!(error instanceof LedgerReadError)) throw error;
        const { cause, message } = error.failure;
        if (cause !== 'retryable') return { kind: 'ledger', reason: message };
        logger.error(`[controller] cannot read the GPU ${series.name}, trying again: ${message}`);
        await clock.sleep(RETRY_MS, signal).catch(() => undefined);
      }
    }
    return { kind: 'aborted' };
  }

  /**
   * Returns the record changes that add rows to a window and to its hour and day, and delete old
   * records. Yields to other work in between, since large fleets have thousands of rows.
   */
  async add(
    start: number,
    rows: readonly GpuRow[],
    slice: Pick<TimeSlice, 'isOver' | 'next'>,
  ): Promise<readonly RecordChange[]> {
    const stored = this.#stored;
    if (rows.length === 0 || stored === undefined) return [];
    const { series } = this.#options;
    const changes = new Map<string, string | undefined>();
    for (const kind of KINDS) {
      const key = gpuKey(series, kind, gpuPeriod(kind, start));
      const sums = this.#loaded.get(key) ?? new GpuRows();
      this.#loaded.set(key, sums);
      for (const row of rows) sums.add(row);
      const value = await this.#encode(sums, slice);
      stored.get(kind)?.set(key, value.length);
      changes.set(key, value);
    }
    // A window that is closed too late for the retention is deleted at once.
    for (const key of this.#drop(stored)) changes.set(key, undefined);
    return [...changes].map(([key, value]) => ({ key, value }));
  }

  async #encode(sums: GpuRows, slice: Pick<TimeSlice, 'isOver' | 'next'>): Promise<string> {
    const texts: string[] = [];
    for (const [index, row] of sums.list().entries()) {
      if (index % ROWS_AT_A_STRETCH === 0 && slice.isOver) await slice.next();
      texts.push(encodeGpuRow(this.#options.series, row));
    }
    return gpuRecord(texts);
  }

  async #list(): Promise<ReadonlyMap<GpuPeriodKind, Map<string, number>>> {
    const { ledger, series } = this.#options;
    const stored = new Map<GpuPeriodKind, Map<string, number>>();
    for (const kind of KINDS) {
      const lengths = new Map<string, number>();
      for await (const [key, { length }] of ledger.records(gpuKey(series, kind, ''))) {
        lengths.set(key, length);
      }
      stored.set(kind, lengths);
    }
    return stored;
  }

  async #read(start: number): Promise<void> {
    const { ledger, series } = this.#options;
    const next = new Map<string, GpuRows>();
    for (const kind of KINDS) {
      const key = gpuKey(series, kind, gpuPeriod(kind, start));
      const rows = this.#loaded.get(key) ?? new GpuRows();
      next.set(key, rows);
      if (this.#loaded.has(key) || this.#stored?.get(kind)?.has(key) !== true) continue;
      const text = await ledger.record(key);
      for (const row of text === undefined ? [] : decodeGpuRows(series, text)) rows.add(row);
    }
    this.#loaded = next;
  }

  /** Removes and returns the keys of records that are too old. */
  #drop(stored: ReadonlyMap<GpuPeriodKind, Map<string, number>>): readonly string[] {
    const { clock, series } = this.#options;
    const dropped: string[] = [];
    for (const [kind, lengths] of stored) {
      const oldest = gpuKey(series, kind, gpuPeriod(kind, clock.now() - GPU_RETENTION_MS[kind]));
      let characters = [...lengths.values()].reduce((sum, length) => sum + length, 0);
      for (const key of [...lengths.keys()].toSorted()) {
        const isTooMany = kind === 'window' && characters > MOST_WINDOW_CHARACTERS;
        if (key >= oldest && !isTooMany) break;
        characters -= lengths.get(key) ?? 0;
        lengths.delete(key);
        dropped.push(key);
      }
    }
    return dropped;
  }
}
