import { createGzip } from 'node:zlib';
import { buffer } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import type { FocusRow } from '../billing/focus/columns.ts';
import { ParquetFile } from '../billing/focus/parquet.ts';
import { focusLines } from '../http/focus-csv.ts';
import type { FocusFormat, FocusVersion } from '../settings/settings.ts';
import type { TimeSlice } from '../telemetry/time-slice.ts';

/** Most rows of one file, which bounds memory. */
const MOST_ROWS = 250_000;

/** How rows are written. */
interface FileKind {
  readonly format: FocusFormat;
  readonly version: FocusVersion;
}

/** How the names of files end, by format. */
export const EXTENSIONS: Readonly<Record<FocusFormat, string>> = {
  csv: 'csv.gz',
  parquet: 'parquet',
};

/** Encodes rows as files of a bounded size. No rows are no file. */
export async function* encodeParts(
  rows: AsyncIterable<FocusRow>,
  kind: FileKind,
  slice: TimeSlice,
): AsyncGenerator<{ readonly bytes: Buffer; readonly rows: number }> {
  const iterator = rows[Symbol.asyncIterator]();
  let next = await iterator.next();
  while (next.done !== true) {
    let count = 0;
    const some = async function* upToMost(): AsyncGenerator<FocusRow> {
      for (; count < MOST_ROWS && next.done !== true; count += 1) {
        yield next.value;
        next = await iterator.next();
      }
    };
    yield { bytes: await encode(some(), kind, slice), rows: count };
  }
}

/** Encodes a file without rows, in the format of its name. */
export function encodeEmpty(
  name: string,
  version: FocusVersion,
  slice: TimeSlice,
): Promise<Buffer> {
  const format = name.endsWith(EXTENSIONS.csv) ? 'csv' : 'parquet';
  const none = async function* noRows(): AsyncGenerator<FocusRow> {};
  return encode(none(), { format, version }, slice);
}

async function encode(
  rows: AsyncIterable<FocusRow>,
  { format, version }: FileKind,
  slice: TimeSlice,
): Promise<Buffer> {
  if (format === 'csv') {
    return buffer(Readable.from(focusLines(rows, version, slice)).pipe(createGzip()));
  }
  const file = new ParquetFile(version);
  for await (const row of rows) {
    if (slice.isOver) await slice.next();
    file.add(row);
  }
  return file.finish();
}
