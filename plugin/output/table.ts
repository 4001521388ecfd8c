import { csvLine } from '../../operator/http/csv.ts';
import { characters, withoutControls } from './characters.ts';

/** A column of a table. */
export interface Column {
  readonly name: string;
  readonly align?: 'right';
  /** Only for people: left out of CSV. */
  readonly drawn?: true;
  /** Cells may be cut to fit. Other columns are cut only when these can be cut no further. */
  readonly cut?: true;
}

export interface Table {
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly string[])[];
  /** Printed when there are no rows. */
  readonly empty: string;
}

const GAP = '  ';
/** The width below which no column is cut. */
const NARROWEST = 8;

/** The lines of a table, none longer than `width`; undefined cuts nothing. */
export function tableLines(table: Table, width: number | undefined): readonly string[] {
  if (table.rows.length === 0) return [table.empty];
  const { columns } = table;
  const cells = table.rows.map((row) => columns.map((_, at) => printable(row[at] ?? '')));
  const natural = columns.map(({ name }, at) => Math.max(length(name), ...longest(cells, at)));
  const widths = width === undefined ? natural : fit(columns, natural, width);
  const lines = [columns.map(({ name }) => name), ...cells].map((row) =>
    line(columns, row, widths),
  );
  return width === undefined ? lines : lines.map((each) => cut(each, width));
}

/** The lines of a table as CSV (RFC 4180), with line ends and complete cells. */
export function csvLines({ columns, rows }: Table): readonly string[] {
  const shown = columns.flatMap(({ drawn }, at) => (drawn === true ? [] : [at]));
  const header = shown.map((at) => columns[at]?.name.toLowerCase().replaceAll(' ', '_') ?? '');
  return [header, ...rows.map((row) => shown.map((at) => row[at] ?? ''))].map((cells) =>
    csvLine(cells),
  );
}

/** The text in one line, without ANSI sequences and control characters. */
export function printable(text: string): string {
  return withoutControls(text).replaceAll(/[\t\r\n]+/g, ' ');
}

/** Cuts the widest of the columns that may be cut, one character at a time, then the others. */
function fit(
  columns: readonly Column[],
  natural: readonly number[],
  width: number,
): readonly number[] {
  const room = width - GAP.length * (columns.length - 1);
  const widths = [...natural];
  const sum = (): number => widths.reduce((total, each) => total + each, 0);
  while (sum() > room) {
    const at = widest(widths, (index) => columns[index]?.cut === true);
    const other = at ?? widest(widths, () => true);
    if (other === undefined) break;
    widths[other] = (widths[other] ?? 0) - 1;
  }
  return widths;
}

function widest(widths: readonly number[], may: (index: number) => boolean): number | undefined {
  const candidates = widths.flatMap((width, at) => (may(at) && width > NARROWEST ? [at] : []));
  return candidates.toSorted((a, b) => (widths[b] ?? 0) - (widths[a] ?? 0))[0];
}

function line(
  columns: readonly Column[],
  row: readonly string[],
  widths: readonly number[],
): string {
  return row
    .map((cell, at) => {
      const width = widths[at] ?? 0;
      const space = ' '.repeat(Math.max(width - length(cell), 0));
      const shown = cut(cell, width);
      return columns[at]?.align === 'right' ? space + shown : shown + space;
    })
    .join(GAP)
    .trimEnd();
}

/** Cuts a text to a number of characters, never inside one. */
function cut(text: string, width: number): string {
  const letters = characters(text);
  return letters.length <= width ? text : `${letters.slice(0, width - 1).join('')}…`;
}

function length(text: string): number {
  return characters(text).length;
}

function longest(cells: readonly (readonly string[])[], at: number): readonly number[] {
  return [cells.reduce((most, row) => Math.max(most, length(row[at] ?? '')), 0)];
}
