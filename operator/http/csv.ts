import type { Response } from 'express';
import type { TimeRange } from '../model/window.ts';
import { badRequest } from './problem.ts';
import { type Query, readChoice } from './query.ts';
import { streamLines } from './stream-lines.ts';

/** Query parameters of every answer that can be CSV. */
export const CSV_PARAMETERS = ['separator', 'decimal', 'bom'] as const;

const SIGNS = { comma: ',', semicolon: ';', tab: '\t', point: '.' } as const;

/** How the cells of a CSV file are written. */
interface CsvForm {
  readonly separator: string;
  readonly decimal: string;
  /** A byte order mark, by which spreadsheets know UTF-8. */
  readonly bom: boolean;
}

/** RFC 4180 with decimal points. */
export const PLAIN_CSV: CsvForm = { separator: ',', decimal: '.', bom: false };

/** The file that an answer becomes, as its request asks for it. */
export interface CsvFile extends CsvForm {
  /** `costs_acme_2026-10-01_2026-10-31_EUR.csv`: what it is, of whom, its first and last day (UTC), its currency. */
  readonly name: (kind: string, extension: 'csv' | 'ndjson', currency?: string) => string;
}

/** Filters that are part of a file's name. */
const SUBJECTS = ['tenant', 'cluster', 'metric', 'sku', 'gpu_type', 'project', 'region'];
const LONGEST_PART = 64;

/** Throws 400 for a parameter of CSV where the answer is none, and for one sign that would be separator and decimal sign. */
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
  // A month that is under way has no days ahead.
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

/** Ids come from clients, and a name is a path to some programs. */
function safePart(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9._-]+/g, '-').slice(0, LONGEST_PART);
}

/** Sends a table as the file that was asked for. */
export async function sendCsv(
  response: Response,
  file: CsvFile,
  table: {
    readonly kind: string;
    readonly currency?: string;
    readonly columns: readonly string[];
    /** The columns of numbers, which have the decimal sign that was asked for. */
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

/** A spreadsheet would run a cell that begins so (CSV injection). */
const FORMULA = /^[=+\-@\t\r]/;
/** So would one that splits at another sign, as its locale does, and does not see that the cell is quoted. */
const INNER_FORMULA = /([;\r\n]["\s]*)([=+\-@])/g;
const INNER_FORMULA_BETWEEN_OTHERS = /([,;\t\r\n]["\s]*)([=+\-@])/g;
const NEEDS_QUOTES = /[",\r\n]/;
const NUMBER = /^-?\d+(\.\d+)?$/;

/** One line of RFC 4180, its cells safe to open in a spreadsheet. Those of `isFigure` are numbers where they look so. */
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
