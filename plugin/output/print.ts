import { exactJson, exactYaml } from '../exact-json.ts';
import { characters, escapeControls } from './characters.ts';
import { csvLines, printable, type Table, tableLines } from './table.ts';

export const FORMATS = ['table', 'wide', 'json', 'yaml', 'csv'] as const;

export type Format = (typeof FORMATS)[number];

/** The result of a command. */
export interface Answer {
  readonly kind: 'answer';
  /** The operator's answer, for programs. */
  readonly document: unknown;
  /** Printed before the table, line by line. */
  readonly facts?: readonly string[];
  readonly table: Table;
  /** Printed after the table. */
  readonly notes?: readonly string[];
}

/** The text of an answer; `width` is that of the terminal. */
export function print(answer: Answer, format: Format, width: number): string {
  switch (format) {
    case 'json':
      return `${escapeControls(exactJson(answer.document))}\n`;
    case 'yaml':
      return escapeControls(exactYaml(answer.document));
    case 'csv':
      return csvLines(answer.table).join('');
    case 'wide':
      return lines(answer, undefined);
    case 'table':
      return lines(answer, width);
    default:
      return format satisfies never;
  }
}

function lines({ facts = [], table, notes = [] }: Answer, width: number | undefined): string {
  const wrapped = (texts: readonly string[]): readonly string[] =>
    texts.flatMap((text) => wrap(printable(text), width));
  const parts = [wrapped(facts), tableLines(table, width), wrapped(notes)];
  return `${parts
    .filter((part) => part.length > 0)
    .map((part) => part.join('\n'))
    .join('\n\n')}\n`;
}

/** Breaks a text between words; a word that is longer than a line is broken too. */
function wrap(text: string, width: number | undefined): readonly string[] {
  if (width === undefined) return [text];
  const complete: string[] = [''];
  for (const word of text.split(' ')) {
    const last = complete.at(-1) ?? '';
    const longer = last === '' ? word : `${last} ${word}`;
    if (characters(longer).length <= width) {
      complete[complete.length - 1] = longer;
      continue;
    }
    const letters = characters(word);
    for (let at = 0; at < letters.length; at += width) {
      complete.push(letters.slice(at, at + width).join(''));
    }
  }
  return complete.filter((each) => each !== '');
}
