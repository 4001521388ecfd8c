import { createHash } from 'node:crypto';
import { FOCUS_COLUMNS, type FocusRow } from '../billing/focus/columns.ts';
import type { FileEntry } from '../billing/focus/manifest.ts';
import type { FocusVersion } from '../settings/settings.ts';
import type { TimeSlice } from '../telemetry/time-slice.ts';
import { csvLine, PLAIN_CSV } from './csv.ts';

/**
 * The lines of a FOCUS file as CSV, the names of the columns first. With a slice other work of the
 * process runs in between.
 */
export async function* focusLines(
  rows: AsyncIterable<FocusRow>,
  version: FocusVersion,
  slice?: TimeSlice,
): AsyncGenerator<string> {
  const columns = FOCUS_COLUMNS[version];
  const isFigure = columns.map(({ type }) => type === 'Decimal');
  yield csvLine(columns.map(({ name }) => name));
  for await (const row of rows) {
    if (slice?.isOver === true) await slice.next();
    const cells = columns.map(({ name }) => row[name] ?? '');
    yield csvLine(cells, PLAIN_CSV, isFigure);
  }
}

/** Counts and hashes a file as its bytes are written. */
export class FileCount {
  readonly #hash = createHash('sha256');
  #bytes = 0;

  add(bytes: Buffer): void {
    this.#bytes += bytes.length;
    this.#hash.update(bytes);
  }

  /** The entry of the complete file. Call it once. */
  entry(name: string, rows: number): FileEntry {
    return { name, rows, bytes: this.#bytes, sha256: this.#hash.digest('hex') };
  }
}
