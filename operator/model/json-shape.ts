/**
 * Counts the values of a JSON text without parsing it. The time of `JSON.parse` depends on the
 * number and depth of values more than on the length: a few MiB of brackets block a thread for a
 * second. Texts from outside are therefore counted first. For a text that is not JSON the result
 * has no meaning.
 */
export function jsonShape(text: string): {
  /** The number of values, plus one for each empty list and object. */
  readonly values: number;
  /** 0 for a text without lists and objects. */
  readonly depth: number;
} {
  let values = 1;
  let level = 0;
  let depth = 0;
  for (let index = 0; index < text.length; index += 1) {
    switch (text.charCodeAt(index)) {
      case QUOTE:
        index = closingQuote(text, index);
        break;
      case COMMA:
        values += 1;
        break;
      case LIST:
      case OBJECT:
        values += 1;
        level += 1;
        if (level > depth) depth = level;
        break;
      case LIST_END:
      case OBJECT_END:
        level -= 1;
        break;
      default:
    }
  }
  return { values, depth };
}

function closingQuote(text: string, opening: number): number {
  let quote = opening;
  do quote = text.indexOf('"', quote + 1);
  while (quote !== -1 && isEscaped(text, quote));
  return quote === -1 ? text.length : quote;
}

function isEscaped(text: string, quote: number): boolean {
  let before = quote;
  while (text.charCodeAt(before - 1) === BACKSLASH) before -= 1;
  return (quote - before) % 2 === 1;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const LIST = 0x5b;
const BACKSLASH = 0x5c;
const LIST_END = 0x5d;
const OBJECT = 0x7b;
const OBJECT_END = 0x7d;

/** Values of one text: 30 for each of 5000 events. The worst such text parses within 0.15 s. */
const MAX_VALUES = 150_000;

export type JsonText =
  | { readonly kind: 'text'; readonly text: string }
  /** `problem` is `what: where: how to fix it`, with the HTTP status for it. */
  | { readonly kind: 'refused'; readonly status: 400 | 413; readonly problem: string };

/**
 * The text of JSON from outside that is cheap enough to parse. `where` names it in problems. Deep
 * values make serialisers recurse (docs/explanation/security.md#d-11).
 */
export function jsonText(bytes: Buffer, maxDepth: number, where = 'body'): JsonText {
  if (bytes.length === 0) return refused(400, `empty: ${where}: send JSON`);
  const text = utf8(bytes);
  if (text === undefined) return refused(400, `not UTF-8: ${where}: send JSON in UTF-8`);
  const { values, depth } = jsonShape(text);
  if (depth > maxDepth) {
    return refused(400, `nested too deeply: ${where}: send at most ${maxDepth} levels`);
  }
  if (values > MAX_VALUES) {
    return refused(413, `too many values: ${where}: send at most ${MAX_VALUES} at a time`);
  }
  return { kind: 'text', text };
}

/** The bytes as text; undefined if they are not UTF-8. */
function utf8(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function refused(status: 400 | 413, problem: string): JsonText {
  return { kind: 'refused', status, problem };
}
