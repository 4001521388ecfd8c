import { invalid, type Parsed, parseField, type Parser, valid } from './parser.ts';

/** The list value that means "nothing", so that a default can be switched off
 * (docs/reference/configuration.md#how-values-are-written). */
const NONE = 'none';

/**
 * A comma-separated list whose items another parser reads. `none` is the empty list; repeats are
 * refused.
 */
export function list<T>(item: Parser<T>): Parser<readonly T[]> {
  return {
    accepts: `list of ${item.accepts}`,
    parse(text) {
      if (text === NONE) return valid([]);
      const split = splitItems(text);
      if (split.kind === 'problem') return split;
      const values: T[] = [];
      for (const part of split.value) {
        if (part === NONE) return invalid(`"${NONE}" beside other items`, `write "${NONE}" alone`);
        const parsed = item.parse(part);
        if (parsed.kind === 'problem') return { ...parsed, input: parsed.input ?? part };
        values.push(parsed.value);
      }
      return valid(values);
    },
    field: (value) => fieldItems(value, item),
  };
}

/** Parses each item of a list in a custom resource. */
export function fieldItems<T>(value: unknown, item: Parser<T>): Parsed<readonly T[]> {
  if (!Array.isArray(value)) return invalid('not a list', 'write it as a list');
  const values: T[] = [];
  for (const given of value) {
    const parsed = parseField(item, given);
    if (parsed.kind === 'problem') return { ...parsed, input: parsed.input ?? String(given) };
    values.push(parsed.value);
  }
  return valid(values);
}

/** The trimmed items of a comma-separated list. An empty or repeated item is a problem. */
export function splitItems(text: string): Parsed<readonly string[]> {
  const items = text.split(',').map((part) => part.trim());
  const seen = new Set<string>();
  for (const item of items) {
    if (item === '') return invalid('an empty item in the list', 'remove the surplus comma');
    if (seen.has(item)) return invalid('listed twice', 'name it once', item);
    seen.add(item);
  }
  return valid(items);
}
