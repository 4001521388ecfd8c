import { hash } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Gauge, type Registry } from 'prom-client';
import { STORED_MS } from '../billing/usage/sums-store.ts';
import { type FocusContext, focusMonth } from '../http/focus-month.ts';
import { measuredSince } from '../http/routes/usage.ts';
import { writeFileDurably } from '../ledger/leveldb/files.ts';
import { errorText } from '../model/error-text.ts';
import { monthAfter, monthOf, monthRange } from '../model/periods.ts';
import { Bucket } from '../outbound/bucket.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { FocusExportSettings } from '../settings/settings.ts';
import type { Logger } from '../telemetry/logger.ts';
import { TimeSlice } from '../telemetry/time-slice.ts';
import {
  type FocusTarget,
  type PutOutcome,
  type WrittenMonth,
  writeMonth,
} from './write-focus-month.ts';

/** Records of the written months, by name. */
const RECORDS = 'focus/export/';
const HOUR_MS = 3_600_000;
/** After the hour, so that its last window is in the ledger. */
const AFTER_HOUR_MS = 180_000;
const RETRY_MS = 300_000;
const POLL_MS = 30_000;
/** A month that is over stays open this long for late usage and corrections. */
export const OPEN_MS = 5 * 24 * HOUR_MS;

/** What is stored about a month: its files at one target. */
interface MonthRecord extends WrittenMonth {
  readonly v: 1;
  readonly target: string;
  /** Its files never change again. */
  readonly final: boolean;
}

/** Writes the FOCUS files of the open months every hour (docs/reference/focus.md#files). */
export class FocusExport {
  readonly #options;
  /** When the last complete pass ended, milliseconds since the epoch. */
  #succeededAt: number | undefined;
  #problem: string | undefined;

  constructor(
    options: FocusContext & {
      readonly logger: Logger;
      readonly registry: Registry;
      /** Sends nothing while this process may not act. */
      readonly outbound: Outbound;
      readonly mayAct: () => boolean;
      /** Makes later usage of a month belong to the next one, see `SumsStore.closeMonth`. */
      readonly closeMonth: (month: string, signal: AbortSignal) => Promise<void>;
    },
  ) {
    this.#options = options;
    const metric: Gauge = new Gauge({
      name: 'meterfeed_focus_export_success_timestamp_seconds',
      help: 'When all FOCUS files were last written; absent before the first time.',
      registers: [options.registry],
      collect: () => {
        metric.reset();
        if (this.#succeededAt !== undefined) metric.set(this.#succeededAt / 1_000);
      },
    });
  }

  /** Why files could not be written, for people; undefined when all is well. */
  problem(): string | undefined {
    return this.#problem;
  }

  /** Runs until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, views, logger } = this.#options;
    let done: { readonly settings?: FocusExportSettings; readonly dueAt: number } = { dueAt: 0 };
    while (!signal.aborted) {
      const { export: settings } = views.settings().focus;
      const isReady = views.pricesKnown() && views.discovery.known();
      if (settings === undefined) this.#problem = undefined;
      else if (isReady && (settings !== done.settings || clock.now() >= done.dueAt)) {
        const problem = await this.pass(settings, signal).catch(errorText);
        if (signal.aborted) return;
        if (problem !== undefined && problem !== this.#problem) {
          logger.warn(`[focus] files cannot be written: ${problem}`);
        }
        this.#problem = problem;
        const now = clock.now();
        const next = (Math.floor(now / HOUR_MS) + 1) * HOUR_MS + AFTER_HOUR_MS;
        done = { settings, dueAt: problem === undefined ? next : now + RETRY_MS };
      }
      await clock.sleep(POLL_MS, signal).catch(() => undefined);
    }
  }

  /** Writes all open months once, the oldest first. Returns the problem, if there is one. */
  async pass(settings: FocusExportSettings, signal: AbortSignal): Promise<string | undefined> {
    const { outbound } = this.#options;
    if (settings.target.kind === 'unusable') return settings.target.problem;
    if (settings.target.kind === 'directory') {
      return this.#months(settings, this.#directory(settings.target.path), signal);
    }
    const { prefix, ...bucket } = settings.target;
    const client = outbound.client({ name: 'focus', baseUrl: bucket.endpoint });
    const objects = new Bucket({ ...bucket, client, now: () => this.#options.clock.now() });
    const put: FocusTarget['put'] = (name, bytes, sha256) =>
      objects.put(prefix + name, bytes, sha256, signal);
    try {
      return await this.#months(settings, { put }, signal);
    } finally {
      await client.close();
    }
  }

  async #months(
    settings: FocusExportSettings,
    target: FocusTarget,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { clock } = this.#options;
    const since = await measuredSince(this.#options);
    if (since === undefined) return undefined;
    const now = clock.now();
    const end = monthOf(new Date(now).toISOString());
    let name = monthOf(new Date(now - STORED_MS.hour).toISOString());
    while (name < end) {
      // Hours of the first month may be deleted.
      name = monthAfter(name);
      if (monthRange(name).to <= since) continue;
      const problem = await this.#month(name, settings, target, signal);
      if (problem !== undefined) return `${name}: ${problem}`;
    }
    this.#succeededAt = clock.now();
    return undefined;
  }

  async #month(
    name: string,
    settings: FocusExportSettings,
    target: FocusTarget,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { ledger, clock, closeMonth } = this.#options;
    const key = RECORDS + name;
    const { format, grain, version: focusVersion } = settings;
    const id = targetId(settings);
    const written = await this.#written(key, id);
    if (written?.final === true) return undefined;
    const range = monthRange(name);
    const isOver = (ledger.stats().lastWindowEnd ?? 0) >= range.to;
    const isFinal = isOver && clock.now() >= range.to + OPEN_MS;
    if (isFinal) await closeMonth(name, signal);
    const month = { ...range, grain, focusVersion };
    const { file, manifest } = await focusMonth(this.#options, {
      month,
      isConfined: false,
      signal,
    });
    const store = async (done: WrittenMonth, final: boolean): Promise<void> => {
      const record: MonthRecord = { v: 1, target: id, final, ...done };
      const outcome = await ledger.writeRecords([{ key, value: JSON.stringify(record) }]);
      if (outcome.kind === 'failed') throw new Error(outcome.message);
    };
    let last: WrittenMonth = written ?? { format, days: {} };
    const outcome = await writeMonth({
      month,
      file,
      manifest: (files) => ({ ...manifest(files), final: isFinal }),
      format,
      target,
      slice: new TimeSlice(clock),
      written,
      note: async (done) => {
        signal.throwIfAborted();
        last = done;
        await store(done, false);
      },
    });
    if (outcome.kind === 'failed') return outcome.reason;
    if (isFinal) await store(last, true);
    return undefined;
  }

  async #written(key: string, id: string): Promise<MonthRecord | undefined> {
    const text = await this.#options.ledger.record(key);
    // Only this class writes them.
    const record = text === undefined ? undefined : (JSON.parse(text) as MonthRecord);
    return record?.target === id ? record : undefined;
  }

  #directory(path: string): FocusTarget {
    const refused = { kind: 'failed', reason: 'the Lease is not renewed' } as const;
    return {
      put: async (name, bytes) =>
        this.#options.mayAct() ? writeTo(join(path, name), bytes) : refused,
    };
  }
}

/** Writes a complete file, or none. */
export async function writeTo(path: string, bytes: Buffer): Promise<PutOutcome> {
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFileDurably(path, bytes);
    return { kind: 'written' };
  } catch (error) {
    await rm(`${path}.new`, { force: true }).catch(() => undefined);
    return { kind: 'failed', reason: errorText(error) };
  }
}

/** Identifies where a month is written. Without credentials, which may change. */
function targetId({ target, grain, version }: FocusExportSettings): string {
  const place =
    target.kind === 'bucket'
      ? [target.endpoint, target.name, target.prefix]
      : [target.kind === 'directory' ? target.path : ''];
  // 1.2 adds nothing: records without a version are of it.
  const dataset = version === '1.2' ? [grain] : [grain, version];
  return hash('sha256', JSON.stringify([...place, ...dataset]), 'hex').slice(0, 32);
}
