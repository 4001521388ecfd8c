import { isRecord } from '../model/is-record.ts';

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
 * Cuts the items out of the text of a Kubernetes list as it arrives. The metrics server does not page,
 * so a whole answer may be as large as the cluster; only one item of it is ever held.
 */
export class ItemScanner {
  readonly #onItem: (item: unknown) => void;
  #depth = 0;
  #inString = false;
  #escaped = false;
  #inItems = false;
  /** Text outside of items, with an empty array in their place. */
  #frame = '';
  #item = '';

  constructor(onItem: (item: unknown) => void) {
    this.#onItem = onItem;
  }

  /**
   * Takes the next part of the text. Throws a SyntaxError when an item is no JSON, a RangeError when
   * something is larger than it can be.
   */
  push(text: string): void {
    let start = 0;
    let position = 0;
    while (position < text.length) {
      if (this.#inString) {
        position = this.#scanString(text, position);
        continue;
      }
      const code = text.charCodeAt(position);
      position += 1;
      if (code === QUOTE) this.#inString = true;
      else if (STRUCTURE.has(code)) {
        const before = text.slice(start, position - 1);
        if (this.#takeStructure(code, before, text.charAt(position - 1))) start = position;
      }
    }
    this.#keep(text.slice(start));
  }

  /** The list without its items; undefined when what came was no list. */
  end(): Readonly<Record<string, unknown>> | undefined {
    if (this.#depth !== 0 || this.#inString) return undefined;
    try {
      const list: unknown = JSON.parse(this.#frame);
      return isRecord(list) && 'items' in list ? list : undefined;
    } catch {
      return undefined;
    }
  }

  #keep(text: string): void {
    if (this.#inItems && this.#depth > ITEM_DEPTH) this.#item += text;
    else if (!this.#inItems) this.#frame += text;
    if (this.#item.length > MAX_ITEM_LENGTH) throw new RangeError('list: an item is too large');
    if (this.#frame.length > MAX_FRAME_LENGTH) throw new RangeError('list: not a list of items');
  }

  #scanString(text: string, from: number): number {
    let position = from;
    for (; position < text.length; position += 1) {
      const code = text.charCodeAt(position);
      if (this.#escaped) this.#escaped = false;
      else if (code === BACKSLASH) this.#escaped = true;
      else if (code === QUOTE) {
        this.#inString = false;
        return position + 1;
      }
    }
    return position;
  }

  /** Handles one structural character; gives true when text up to and with it was consumed. */
  #takeStructure(code: number, before: string, character: string): boolean {
    const opens = code === OPEN_BRACE || code === OPEN_BRACKET;
    return opens ? this.#open(code, before, character) : this.#close(before, character);
  }

  #open(code: number, before: string, character: string): boolean {
    const opensItems =
      code === OPEN_BRACKET && this.#depth === 1 && /"items"\s*:\s*$/.test(this.#frame + before);
    if (opensItems) {
      this.#keep(`${before}[`);
      this.#depth += 1;
      this.#inItems = true;
      return true;
    }
    const opensItem = this.#inItems && this.#depth === ITEM_DEPTH;
    if (opensItem) this.#item = character;
    this.#depth += 1;
    return opensItem;
  }

  #close(before: string, character: string): boolean {
    if (this.#inItems && this.#depth === ITEM_DEPTH) {
      this.#inItems = false;
      this.#depth -= 1;
      this.#keep(']');
      return true;
    }
    if (this.#inItems && this.#depth === ITEM_DEPTH + 1) {
      this.#keep(before + character);
      this.#depth -= 1;
      this.#onItem(JSON.parse(this.#item));
      this.#item = '';
      return true;
    }
    this.#depth -= 1;
    return false;
  }
}
