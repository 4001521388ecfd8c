import type { Ledger } from '../../ledger/ledger.ts';
import { coverRange, PERIOD_MS, periodStart } from '../../model/periods.ts';
import {
  GPU_RETENTION_MS,
  gpuKey,
  gpuPeriod,
  type GpuPeriodKind,
} from '../../metering/windows/gpu-history/gpu-history.ts';
import {
  decodeGpuRows,
  GPU_SHARES,
  GPU_UTILIZATION,
  type GpuRow,
  type GpuSeries,
} from '../../metering/windows/gpu-history/gpu-series.ts';
import type { GpuSums } from './gpu-sums.ts';
import type { TimeRange } from '../../model/window.ts';

export interface GpuQuery {
  readonly range: TimeRange;
  readonly filter: (row: Pick<GpuRow, 'tenant' | 'gpuType'>) => boolean;
  /** The finest time that the answer distinguishes. */
  readonly by: GpuPeriodKind;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly signal: AbortSignal;
}

export type GpuOutcome =
  /** `partial`: some of the range is older than the retained records. */
  | { readonly kind: 'added'; readonly partial: boolean }
  /** `sums` has reached its most rows. */
  | { readonly kind: 'full' };

type Records = Pick<Ledger, 'record' | 'records'>;

/**
 * Adds the GPU time of tenants, and the utilization, of the windows that start in a range
 * (docs/explanation/gpus.md#kept-for-400-days). Throws a LedgerReadError when the ledger is
 * damaged.
 */
export async function addGpus(
  ledger: Records,
  sums: GpuSums,
  query: GpuQuery,
): Promise<GpuOutcome> {
  let partial = false;
  for (const range of rangesOf(query)) {
    query.signal.throwIfAborted();
    for (const series of [GPU_SHARES, GPU_UTILIZATION]) {
      for await (const [start, rows] of recordsOf(ledger, series, range)) {
        const wanted = rows.filter(query.filter);
        if (!wanted.every((row) => sums.add(series, start, row))) return { kind: 'full' };
      }
    }
    partial ||= await isPartlyGone(ledger, range, query.now);
  }
  return { kind: 'added', partial };
}

/** When the first retained hour or day begins, RFC 3339; undefined without records. */
export async function gpusSince(ledger: Records): Promise<string | undefined> {
  const [day, hour] = await Promise.all([firstOf(ledger, 'day'), firstOf(ledger, 'hour')]);
  if (day === undefined) return undefined;
  return periodStart(hour?.startsWith(day) === true ? hour : day);
}

/** A part of the requested range, and the kind of record that covers it. */
interface RecordRange extends TimeRange {
  readonly kind: GpuPeriodKind;
}

function rangesOf({ range: { from, to }, by }: GpuQuery): readonly RecordRange[] {
  if (by === 'window') return hoursBetween(from, to);
  const { days, hours, edges } = coverRange(from, to, by === 'hour');
  const complete = (kind: 'hour' | 'day') => (period: string) => {
    const start = Date.parse(periodStart(period));
    return { kind, from: start, to: start + PERIOD_MS[kind] };
  };
  return [
    ...days.map(complete('day')),
    ...hours.map(complete('hour')),
    ...edges.flatMap((edge) => hoursBetween(edge.from, edge.to)),
  ];
}

/** Cuts a range at every full hour, because window records are listed by hour. */
function hoursBetween(from: number, to: number): readonly RecordRange[] {
  const ranges: RecordRange[] = [];
  for (let start = from; start < to; ) {
    const end = Math.min(to, (Math.floor(start / PERIOD_MS.hour) + 1) * PERIOD_MS.hour);
    ranges.push({ kind: 'window', from: start, to: end });
    start = end;
  }
  return ranges;
}

async function* recordsOf(
  ledger: Records,
  series: GpuSeries,
  { kind, from, to }: RecordRange,
): AsyncGenerator<readonly [start: string, rows: readonly GpuRow[]]> {
  if (kind !== 'window') {
    const text = await ledger.record(gpuKey(series, kind, gpuPeriod(kind, from)));
    if (text !== undefined) yield [new Date(from).toISOString(), decodeGpuRows(series, text)];
    return;
  }
  const all = gpuKey(series, kind, '');
  for await (const [key, text] of ledger.records(gpuKey(series, kind, gpuPeriod('hour', from)))) {
    const start = key.slice(all.length);
    const at = Date.parse(start);
    if (at >= from && at < to) yield [start, decodeGpuRows(series, text)];
  }
}

/**
 * Returns true when records of the range have expired. Windows have expired if the record of their
 * hour exists and theirs do not; hours and days by their age.
 */
async function isPartlyGone(
  ledger: Records,
  { kind, from }: RecordRange,
  now: number,
): Promise<boolean> {
  if (kind !== 'window') return from < now - GPU_RETENTION_MS[kind];
  const hour = gpuPeriod('hour', from);
  if ((await ledger.record(gpuKey(GPU_SHARES, 'hour', hour))) === undefined) return false;
  for await (const _ of ledger.records(gpuKey(GPU_SHARES, kind, hour))) return false;
  return true;
}

async function firstOf(ledger: Records, kind: GpuPeriodKind): Promise<string | undefined> {
  const all = gpuKey(GPU_SHARES, kind, '');
  for await (const [key] of ledger.records(all)) return key.slice(all.length);
  return undefined;
}
