import type { Response } from 'express';
import type { TimeRange } from '../model/window.ts';
import { badRequest } from './problem.ts';
import { type Query, readChoice } from './query.ts';
import { streamLines } from './stream-lines.ts';

/** Query parameters of every answer that can be CSV. */
export const CSV_PARAMETERS = ['separator', 'decimal', 'bom'] as const;

const SIGNS = { comma: ',', semicolon: ';', tab: '\t', point: '.' } as const;

/** The format of the cells of a CSV file. */
interface CsvForm {
  readonly separator: string;
  readonly decimal: string;
  /** Whether the file begins with a byte order mark, which tells spreadsheets that it is UTF-8. */
  readonly bom: boolean;
}

/** RFC 4180 with decimal points. */
export const PLAIN_CSV: CsvForm = { separator: ',', decimal: '.', bom: false };

/** The format and the name of a downloaded file, by the query of its request. */
export interface CsvFile extends CsvForm {
  /** `costs_acme_2026-10-01_2026-10-31_EUR.csv`: kind, filters, first and last day, currency. */
  readonly name: (kind: string, extension: 'csv' | 'ndjson', currency?: string) => string;
}

/** Filters that are part of a file's name. */
const SUBJECTS = ['tenant', 'cluster', 'metric', 'sku', 'gpu_type', 'project', 'region'];
const LONGEST_PART = 64;

/**
 * Reads the CSV parameters of a query. Throws 400 when the answer is not CSV, and when separator
 * and decimal sign are the same.
 */
export function readCsvFile(query: Query, { from, to }: TimeRange, now: number): CsvFile {
  const given = CSV_PARAMETERS.find((name) => query.has(name));
  if (given !== undefined && query.get('format') !== 'csv') {
    throw badRequest(`only CSV has it: ${given}: add format=csv, or leave it out`);
  }
  const separator = readChoice(query, 'separator', ['comma', 'semicolon', 'tab']);
  const decimal = readChoice(query, 'decimal', ['point', 'comma']);
  if (separator === decimal) {
    throw badRequest(
      'the same sign as the separator: decimal: "comma": add separator=semicolon or separator=tab',
    );
  }
  // The file of the current month ends with today.
  const last = Math.max(from, Math.min(to, now) - 1);
  const day = (at: number): string => new Date(at).toISOString().slice(0, 10);
  const subjects = SUBJECTS.flatMap((name) => query.get(name) ?? []);
  return {
    separator: SIGNS[separator],
    decimal: SIGNS[decimal],
    bom: readChoice(query, 'bom', ['false', 'true']) === 'true',
    name: (kind, extension, currency = '') => {
      const parts = [kind, ...subjects, day(from), day(last), currency];
      return `${parts.filter(Boolean).map(safePart).join('_')}.${extension}`;
    },
  };
}

/** Replaces all characters that could have a meaning in a path: the ids come from clients. */
function safePart(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9._-]+/g, '-').slice(0, LONGEST_PART);
}

/** Sends a table as a CSV file. */
export async function sendCsv(
  response: Response,
  file: CsvFile,
  table: {
    readonly kind: string;
    readonly currency?: string;
    readonly columns: readonly string[];
    /** The columns of numbers, written with the requested decimal sign. */
    readonly figures: readonly string[];
    readonly rows: Iterable<readonly string[]> | AsyncIterable<readonly string[]>;
  },
): Promise<void> {
  const { kind, currency, columns, figures, rows } = table;
  response.attachment(file.name(kind, 'csv', currency)).type('text/csv');
  const isFigure = columns.map((name) => figures.includes(name));
  await streamLines(
    response,
    (async function* lines() {
      yield `${file.bom ? '\uFEFF' : ''}${csvLine(columns, file)}`;
      for await (const row of rows) yield csvLine(row, file, isFigure);
    })(),
  );
}

/** The beginning of a cell that a spreadsheet would run as a formula (CSV injection). */
const FORMULA = /^[=+\-@\t\r]/;
/**
 * A formula behind a separator inside a cell. A spreadsheet that splits at that sign and ignores
 * the quotes would run it.
 */
const INNER_FORMULA = /([;\r\n]["\s]*)([=+\-@])/g;
const INNER_FORMULA_BETWEEN_OTHERS = /([,;\t\r\n]["\s]*)([=+\-@])/g;
const NEEDS_QUOTES = /[",\r\n]/;
const NUMBER = /^-?\d+(\.\d+)?$/;

/**
 * One line of RFC 4180 whose cells are safe to open in a spreadsheet. A cell of `isFigure` stays a
 * number when it has the form of one.
 */
export function csvLine(
  cells: readonly string[],
  form = PLAIN_CSV,
  isFigure: readonly boolean[] = [],
): string {
  const texts = cells.map((cell, index) =>
    isFigure[index] === true && NUMBER.test(cell)
      ? cell.replace('.', form.decimal)
      : textCell(cell, form),
  );
  return `${texts.join(form.separator)}\r\n`;
}

function textCell(text: string, { separator }: CsvForm): string {
  const formula = separator === ',' ? INNER_FORMULA : INNER_FORMULA_BETWEEN_OTHERS;
  const inside = text.replace(formula, "$1'$2");
  const safe = FORMULA.test(inside) ? `'${inside}` : inside;
  const needsQuotes = inside !== text || NEEDS_QUOTES.test(safe) || safe.includes(separator);
  return needsQuotes ? `"${safe.replaceAll('"', '""')}"` : safe;
}
