import { hash } from 'node:crypto';
import type { FocusDay, FocusFile } from '../billing/focus/focus-file.ts';
import type { FileEntry } from '../billing/focus/manifest.ts';
import type { BillingMonth } from '../billing/focus/rows.ts';
import { monthOf } from '../model/periods.ts';
import { formatInstant } from '../model/window.ts';
import type { FocusFormat } from '../settings/settings.ts';
import type { TimeSlice } from '../telemetry/time-slice.ts';
import { encodeEmpty, encodeParts, EXTENSIONS } from './focus-parts.ts';

/** The result of writing one file. `reason` is one line without a secret. */
export type PutOutcome =
  | { readonly kind: 'written' }
  | { readonly kind: 'failed'; readonly reason: string };

/** Where files go: a directory or a bucket. */
export interface FocusTarget {
  /** Writes a complete file or nothing. `name` is a path with slashes. */
  put(name: string, bytes: Buffer, sha256: string): Promise<PutOutcome>;
}

/** What was written of a month. */
export interface WrittenMonth {
  readonly format: FocusFormat;
  /** The days of the month, see {@link FocusDay}. */
  readonly days: Readonly<
    Record<string, { readonly mark: string; readonly files: readonly FileEntry[] }>
  >;
}

interface MonthWriting {
  readonly month: BillingMonth;
  readonly file: FocusFile;
  readonly manifest: (files: readonly FileEntry[]) => object;
  readonly format: FocusFormat;
  readonly target: FocusTarget;
  readonly slice: TimeSlice;
  /** What is written already; undefined if nothing is known. */
  readonly written?: WrittenMonth;
  /** Notes what was written so far, so that the next attempt continues there. */
  readonly note: (written: WrittenMonth) => Promise<void>;
}

/**
 * Writes the files of a month that changed, then its manifest
 * (docs/reference/focus.md#files). Returns the names of all files, the manifest last. The same
 * usage gives the same bytes.
 */
export async function writeMonth(
  writing: MonthWriting,
): Promise<
  | { readonly kind: 'written'; readonly names: readonly string[] }
  | { readonly kind: 'failed'; readonly reason: string }
> {
  const { month, file, manifest, format, target, written, note } = writing;
  const known =
    written?.format === format
      ? new Map(Object.entries(written.days).map(([key, { mark }]) => [key, mark]))
      : new Map<string, string>();
  let now: WrittenMonth = { format, days: written?.days ?? {} };
  for await (const day of file.days(known)) {
    if (day.rows === undefined) continue;
    const key = day.isRounding ? `${day.day} rounding` : day.day;
    const outcome = await writeDay(writing, day, now.days[key]?.files ?? []);
    if (outcome.kind === 'failed') return outcome;
    const { files } = outcome;
    if (files.length === 0 && day.mark === '') continue;
    now = { format, days: { ...now.days, [key]: { mark: day.mark, files } } };
    await note(now);
  }
  const files = Object.values(now.days)
    .flatMap((day) => day.files)
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const text = Buffer.from(`${JSON.stringify(manifest(files), undefined, 2)}\n`);
  const name = `${rootOf(month)}/metadata/${periodOf(month)}/manifest.json`;
  const put = await target.put(name, text, hash('sha256', text, 'hex'));
  return put.kind === 'failed'
    ? put
    : { kind: 'written', names: [...files.map((entry) => entry.name), name] };
}

/** Writes the files of a day that differ from those of `before`. */
async function writeDay(
  { month, format, target, slice }: MonthWriting,
  { day, isRounding, rows }: FocusDay,
  before: readonly FileEntry[],
): Promise<
  | { readonly kind: 'written'; readonly files: readonly FileEntry[] }
  | { readonly kind: 'failed'; readonly reason: string }
> {
  const { focusVersion: version } = month;
  const files: FileEntry[] = [];
  const put = async (name: string, bytes: Buffer, count: number): Promise<PutOutcome> => {
    const sha256 = hash('sha256', bytes, 'hex');
    files.push({ name, rows: count, bytes: bytes.length, sha256 });
    const isSame = before.some((one) => one.name === name && one.sha256 === sha256);
    return isSame ? { kind: 'written' } : target.put(name, bytes, sha256);
  };
  const folder = `${rootOf(month)}/cost-and-usage/${periodOf(month)}/charge_day=${day}`;
  for await (const part of rows === undefined
    ? []
    : encodeParts(rows, { format, version }, slice)) {
    const number = String(files.length).padStart(3, '0');
    const name = `${folder}/${isRounding ? 'rounding' : 'part'}-${number}.${EXTENSIONS[format]}`;
    const outcome = await put(name, part.bytes, part.rows);
    if (outcome.kind === 'failed') return outcome;
  }
  // A reader of all files must not find rows that went.
  for (const { name } of before.filter((one) => files.every((file) => file.name !== one.name))) {
    const outcome = await put(name, await encodeEmpty(name, version, slice), 0);
    if (outcome.kind === 'failed') return outcome;
  }
  return { kind: 'written', files };
}

/** Rows by the hour and by the day are two data sets, and so is each version. */
function rootOf({ grain, focusVersion }: BillingMonth): string {
  return `focus-${focusVersion}${grain === 'day' ? '-daily' : ''}`;
}

function periodOf({ from }: BillingMonth): string {
  return `billing_period=${monthOf(formatInstant(from))}`;
}
