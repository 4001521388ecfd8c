/**
 * Counts the values in a text of JSON without making any of them. `JSON.parse` takes more time with the number and the depth
 * of values than with the length: a few MiB of brackets hold a thread up for a second. So texts of others are looked at first.
 * Of what is no JSON it says something, too, which is then of no importance.
 */
export function jsonShape(text: string): {
  /** As many as there are, and one more for each empty list and object. */
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
