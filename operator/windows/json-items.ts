/** Reads a Kubernetes list from a stream, holding one item at a time. */
export interface ItemScanner {
  push(text: string): void;
  /** The list without its items; undefined when what came was no list. */
  end(): Readonly<Record<string, unknown>> | undefined;
}

/** An object in etcd is at most 1.5 MiB; anything larger is not an item. */
const MAX_ITEM_LENGTH = 4 * 1024 * 1024;
/** What surrounds the items of a list is a few hundred bytes. */
const MAX_FRAME_LENGTH = 64 * 1024;

const QUOTE = 34;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

const STRUCTURE: ReadonlySet<number> = new Set([
  OPEN_BRACKET,
  CLOSE_BRACKET,
  OPEN_BRACE,
  CLOSE_BRACE,
]);

/** Nesting depth of the elements of the list's own `items` array. */
const ITEM_DEPTH = 2;

/**
 * Cuts the items out of the text of a list as it arrives. The metrics server does not page, so a
 * whole answer may be as large as the cluster; only one item of it is ever held. Throws a
 * SyntaxError when an item is no JSON, a RangeError when something is larger than it can be.
 */
export function createItemScanner(onItem: (item: unknown) => void): ItemScanner {
  let depth = 0;
  let inString = false;
  let escaped = false;
  let inItems = false;
  /** Text outside of items, with an empty array in their place. */
  let frame = '';
  let item = '';

  const keep = (text: string): void => {
    if (inItems && depth > ITEM_DEPTH) item += text;
    else if (!inItems) frame += text;
    if (item.length > MAX_ITEM_LENGTH) throw new RangeError('list: an item is too large');
    if (frame.length > MAX_FRAME_LENGTH) throw new RangeError('list: not a list of items');
  };

  const scanString = (text: string, from: number): number => {
    let position = from;
    for (; position < text.length; position += 1) {
      const code = text.charCodeAt(position);
      if (escaped) escaped = false;
      else if (code === BACKSLASH) escaped = true;
      else if (code === QUOTE) {
        inString = false;
        return position + 1;
      }
    }
    return position;
  };

  /** Handles one structural character; gives true when text up to and with it was consumed. */
  const structural = (code: number, before: string, character: string): boolean => {
    if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      const opensItems =
        code === OPEN_BRACKET && depth === 1 && /"items"\s*:\s*$/.test(frame + before);
      if (opensItems) {
        keep(`${before}[`);
        depth += 1;
        inItems = true;
        return true;
      }
      if (inItems && depth === ITEM_DEPTH) {
        depth += 1;
        item = character;
        return true;
      }
      depth += 1;
      return false;
    }
    if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      if (inItems && depth === ITEM_DEPTH) {
        inItems = false;
        depth -= 1;
        keep(']');
        return true;
      }
      if (inItems && depth === ITEM_DEPTH + 1) {
        keep(before + character);
        depth -= 1;
        onItem(JSON.parse(item));
        item = '';
        return true;
      }
      depth -= 1;
    }
    return false;
  };

  return {
    push: (text) => {
      let start = 0;
      let position = 0;
      while (position < text.length) {
        if (inString) {
          position = scanString(text, position);
          continue;
        }
        const code = text.charCodeAt(position);
        position += 1;
        if (code === QUOTE) inString = true;
        else if (STRUCTURE.has(code)) {
          const before = text.slice(start, position - 1);
          if (structural(code, before, text.charAt(position - 1))) start = position;
        }
      }
      keep(text.slice(start));
    },
    end: () => {
      if (depth !== 0 || inString) return undefined;
      try {
        const list: unknown = JSON.parse(frame);
        return typeof list === 'object' && list !== null && 'items' in list
          ? { ...list }
          : undefined;
      } catch {
        return undefined;
      }
    },
  };
}
