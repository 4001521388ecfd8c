import { invalid, type Parser, valid } from './parsers/parser.ts';
/**
 * The position of a placeholder in a query, which decides how its value is escaped: in a string, in
 * a regular expression string, in the replacement of `label_replace`, or outside strings.
 */
export type PlaceholderPlace = 'string' | 'regex' | 'replacement' | 'bare';

/** A placeholder for a name of the tenant cluster, or for a figure of the window. */
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
  /** The quote of the string around it; `"` outside strings. */
  readonly quote: '"' | "'";
}

/** Whether a segment is a placeholder for a name of the tenant cluster. */
export function isNamePlaceholder(segment: TemplateSegment): segment is Placeholder {
  return segment.kind === 'placeholder' && NAMES.has(segment.name);
}

/** A PromQL template, split at its placeholders. */
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

/** The arguments of `label_replace(v, dst, replacement, src, regex)` that are not plain text. */
const LABEL_REPLACE_PLACES: Readonly<Record<number, PlaceholderPlace>> = {
  2: 'replacement',
  4: 'regex',
};

/**
 * Reads a query template (docs/explanation/prometheus.md#queries-of-your-own). Placeholders for
 * names are accepted only in strings, where no value can end its quotes
 * (docs/explanation/security.md#d-7). Placeholders for figures are accepted anywhere.
 */
export function readQueryTemplate(template: string): ReadTemplate {
  const segments: TemplateSegment[] = [];
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
    segments.push(...added);
    if (comment === undefined) position.pass(token, match.groups ?? {});
  }
  return { kind: 'template', segments: joined(segments) };
}

/** Tracks matchers and calls, so that the kind of the next string is known. */
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

/** Rewrites a backtick string with placeholders to `"`, because backticks escape nothing. */
function readString(literal: string, place: PlaceholderPlace): TemplateSegment[] | ReadTemplate {
  const quote = literal.startsWith("'") ? "'" : '"';
  if (!literal.startsWith('`')) return cut(literal, place, quote);
  if (!literal.includes('{{')) return [{ kind: 'text', text: literal }];
  const inside = cut(literal.slice(1, -1), place, quote);
  if (!Array.isArray(inside)) return inside;
  const text = (content: string): TemplateSegment => ({ kind: 'text', text: content });
  return [
    text(quote),
    ...inside.map((segment) =>
      segment.kind === 'text' ? text(escapePromqlText(segment.text, quote)) : segment,
    ),
    text(quote),
  ];
}

function cut(
  text: string,
  place: PlaceholderPlace,
  quote: Placeholder['quote'],
): TemplateSegment[] | ReadTemplate {
  const segments: TemplateSegment[] = [];
  let end = 0;
  for (const match of text.matchAll(PLACEHOLDER)) {
    const [complete, name = ''] = match;
    if (!isPlaceholder(name)) return problem('unknown placeholder', `use ${KNOWN}`, complete);
    if (place === 'bare' && NAMES.has(name)) {
      return problem('placeholder outside a string', 'write "…" around it', complete);
    }
    segments.push({ kind: 'text', text: text.slice(end, match.index) });
    segments.push({ kind: 'placeholder', name, place, quote });
    end = match.index + complete.length;
  }
  return [...segments, { kind: 'text', text: text.slice(end) }];
}

function isPlaceholder(name: string): name is Placeholder['name'] {
  return NAMES.has(name) || FIGURES.has(name);
}

function joined(segments: readonly TemplateSegment[]): TemplateSegment[] {
  const result: TemplateSegment[] = [];
  for (const segment of segments) {
    const last = result.at(-1);
    if (segment.kind === 'placeholder') result.push(segment);
    else if (last?.kind === 'text')
      result[result.length - 1] = { kind: 'text', text: last.text + segment.text };
    else if (segment.text !== '') result.push(segment);
  }
  return result;
}

function problem(what: string, fix: string, input: string): ReadTemplate {
  return { kind: 'problem', what, fix, input };
}

/** Escapes a text for the inside of a PromQL string, so that nothing in it can end the string. */
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
