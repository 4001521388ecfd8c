import { invalid, type Parser, valid } from './parsers/parser.ts';
/**
 * Where a placeholder stands in a query, which decides how its value is escaped: in a string, in a string
 * that is a regular expression, in the replacement of `label_replace`, or outside of strings.
 */
export type PlaceholderPlace = 'string' | 'regex' | 'replacement' | 'bare';

/** What a placeholder is filled with: names of the tenant cluster, or figures of the window. */
export type NamePlaceholder =
  | 'namespace'
  | 'vcluster'
  | 'instance'
  | 'project'
  | 'tenant'
  | 'tenant_cluster';
export type FigurePlaceholder = 'window' | 'window_seconds';

export interface Placeholder {
  readonly kind: 'placeholder';
  readonly name: NamePlaceholder | FigurePlaceholder;
  readonly place: PlaceholderPlace;
  /** The quote of the string that it stands in; `"` outside of strings. */
  readonly quote: '"' | "'";
}

/** A PromQL template, cut at its placeholders. */
export type TemplateSegment = { readonly kind: 'text'; readonly text: string } | Placeholder;

export type ReadTemplate =
  | { readonly kind: 'template'; readonly segments: readonly TemplateSegment[] }
  | {
      readonly kind: 'problem';
      readonly what: string;
      readonly fix: string;
      readonly input: string;
    };

const NAMES: ReadonlySet<string> = new Set<NamePlaceholder>([
  'namespace',
  'vcluster',
  'instance',
  'project',
  'tenant',
  'tenant_cluster',
]);
const FIGURES: ReadonlySet<string> = new Set<FigurePlaceholder>(['window', 'window_seconds']);
const KNOWN = [...NAMES, ...FIGURES].map((name) => `{{${name}}}`).join(' ');

const TOKEN =
  /(?<comment>#[^\n]*)|(?<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)|(?<placeholder>\{\{[^{}]*\}\})|(?<word>[A-Za-z_:][\w:]*)|(?<matcher>=~|!~)|(?<mark>[()[\]{},])|(?<open>["'`])|\s+|./gs;
const PLACEHOLDER = /\{\{\s*([^{}]*?)\s*\}\}/g;

/** The arguments of `label_replace(v, dst, replacement, src, regex)` that are more than plain text. */
const LABEL_REPLACE_PLACES: Readonly<Record<number, PlaceholderPlace>> = {
  2: 'replacement',
  4: 'regex',
};

/**
 * Reads a query template (docs/explanation/prometheus.md#queries-of-your-own). Placeholders for names are accepted only inside
 * of strings, where no value can reach beyond its quotes (docs/explanation/security.md#d-7); those for figures anywhere.
 */
export function readQueryTemplate(template: string): ReadTemplate {
  const pieces: TemplateSegment[] = [];
  const position = createPosition();
  for (const match of template.matchAll(TOKEN)) {
    const [token] = match;
    const { string, comment, open } = match.groups ?? {};
    if (open !== undefined) return problem('an open quote', 'close it', token);
    const added =
      string === undefined
        ? cut(token, 'bare', '"')
        : readString(string, comment === undefined ? position.placeOfString() : 'bare');
    if (!Array.isArray(added)) return added;
    pieces.push(...added);
    if (comment === undefined) position.pass(token, match.groups ?? {});
  }
  return { kind: 'template', segments: joined(pieces) };
}

/** Follows matchers and calls, so that a string is known for what it is. */
function createPosition() {
  const calls: { readonly name: string; argument: number }[] = [];
  let word = '';
  let afterMatcher = false;
  return {
    placeOfString: (): PlaceholderPlace => {
      if (afterMatcher) return 'regex';
      const call = calls.at(-1);
      if (call?.name !== 'label_replace') return 'string';
      return LABEL_REPLACE_PLACES[call.argument] ?? 'string';
    },
    pass: (token: string, groups: Readonly<Record<string, string | undefined>>): void => {
      if (token.trim() === '') return;
      if (groups['mark'] !== undefined) passMark(token);
      word = groups['word'] ?? '';
      afterMatcher = groups['matcher'] !== undefined;
    },
  };

  function passMark(mark: string): void {
    const call = calls.at(-1);
    if (mark === ',' && call !== undefined) call.argument += 1;
    else if ('([{'.includes(mark)) calls.push({ name: mark === '(' ? word : '', argument: 0 });
    else if (')]}'.includes(mark)) calls.pop();
  }
}

/** A string with placeholders is written with `"` when it was written with backticks, which escape nothing. */
function readString(literal: string, place: PlaceholderPlace): TemplateSegment[] | ReadTemplate {
  const quote = literal.startsWith("'") ? "'" : '"';
  if (!literal.startsWith('`')) return cut(literal, place, quote);
  if (!literal.includes('{{')) return [{ kind: 'text', text: literal }];
  const inside = cut(literal.slice(1, -1), place, quote);
  if (!Array.isArray(inside)) return inside;
  const text = (content: string): TemplateSegment => ({ kind: 'text', text: content });
  return [
    text(quote),
    ...inside.map((piece) =>
      piece.kind === 'text' ? text(escapePromqlText(piece.text, quote)) : piece,
    ),
    text(quote),
  ];
}

function cut(
  text: string,
  place: PlaceholderPlace,
  quote: Placeholder['quote'],
): TemplateSegment[] | ReadTemplate {
  const pieces: TemplateSegment[] = [];
  let end = 0;
  for (const match of text.matchAll(PLACEHOLDER)) {
    const [complete, name = ''] = match;
    if (!isPlaceholder(name)) return problem('unknown placeholder', `use ${KNOWN}`, complete);
    if (place === 'bare' && NAMES.has(name)) {
      return problem('placeholder outside a string', 'write "…" around it', complete);
    }
    pieces.push({ kind: 'text', text: text.slice(end, match.index) });
    pieces.push({ kind: 'placeholder', name, place, quote });
    end = match.index + complete.length;
  }
  return [...pieces, { kind: 'text', text: text.slice(end) }];
}

function isPlaceholder(name: string): name is Placeholder['name'] {
  return NAMES.has(name) || FIGURES.has(name);
}

function joined(pieces: readonly TemplateSegment[]): TemplateSegment[] {
  const result: TemplateSegment[] = [];
  for (const piece of pieces) {
    const last = result.at(-1);
    if (piece.kind === 'placeholder') result.push(piece);
    else if (last?.kind === 'text')
      result[result.length - 1] = { kind: 'text', text: last.text + piece.text };
    else if (piece.text !== '') result.push(piece);
  }
  return result;
}

function problem(what: string, fix: string, input: string): ReadTemplate {
  return { kind: 'problem', what, fix, input };
}

/** A text as it stands between the quotes of a PromQL string: nothing in it can end the string. */
export function escapePromqlText(text: string, quote: Placeholder['quote']): string {
  return text.toWellFormed().replaceAll(/[\\"'\p{Cc}]/gu, (character) => {
    if (character === '\\' || character === quote) return `\\${character}`;
    if (character === '"' || character === "'") return character;
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

const LONGEST = 8_192;

/** A PromQL template; `none` switches the query off. */
export function queryTemplate(): Parser<string> {
  return {
    accepts: 'a PromQL template; `none` switches it off',
    parse(text) {
      if (text === '') return invalid('blank', 'give a query, or none to switch it off');
      if (text.length > LONGEST) return invalid('too long', `at most ${LONGEST} characters`);
      const template = readQueryTemplate(text);
      if (template.kind === 'template') return valid(text);
      return invalid(template.what, template.fix, template.input);
    },
  };
}
