import { linkAbort } from '../../telemetry/abort.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { describeFailure } from '../../kubernetes/outcome.ts';
import { resourcePath } from '../../kubernetes/resource.ts';
import { isRecord } from '../../model/is-record.ts';
import { parseJson } from '../../model/parse-json.ts';
import { amountAt, listAt, recordAt, textAt } from '../../kubernetes/raw-fields.ts';

/** Usage of one pod from the metrics API, summed over its containers. */
export type PodReading =
  | {
      readonly kind: 'usage';
      readonly namespace: string;
      readonly name: string;
      /** Nanocores. */
      readonly cpu: number;
      /** Bytes. */
      readonly memory: number;
    }
  /** A value that is not a quantity; `problem` is `what: where: "input"`. */
  | { readonly kind: 'malformed'; readonly problem: string };

export type PodMetricsOutcome =
  | { readonly kind: 'read' }
  /** The metrics API is absent, down or sent an invalid answer. */
  | { readonly kind: 'failed'; readonly reason: string };

/** Reads the usage of all pods of the cluster or a namespace; passes on readings as they arrive. */
export interface PodMetricsReader {
  read(
    onReading: (reading: PodReading) => void,
    signal: AbortSignal,
    namespace?: string,
  ): Promise<PodMetricsOutcome>;
}

const POD_METRICS = { group: 'metrics.k8s.io', version: 'v1beta1', plural: 'pods' } as const;
const PAGE_SIZE = 500;
/** Bounds continue tokens that lead in circles, so that the next sample can start. */
const MAX_PAGES = 10_000;
/** A slower sample would be too far from the moment that it stands for. */
const DEFAULT_TIMEOUT_MS = 30_000;

type MetricsPage = { readonly kind: 'page'; readonly next: string | undefined } | Failed;

/**
 * Lists once for each sample, in pages if the server pages (the metrics server does not). Only one
 * item is in memory at a time.
 */
export function createPodMetricsReader(
  connection: Pick<Connection, 'bytes'>,
  timeoutMs = DEFAULT_TIMEOUT_MS,
): PodMetricsReader {
  return {
    read: async (onReading, outer, namespace) => {
      const path = resourcePath({ ...POD_METRICS, namespace });
      const link = linkAbort(outer);
      const timer = setTimeout(link.abort, timeoutMs);
      const readPage = async (token: string | undefined): Promise<MetricsPage> => {
        const query = { limit: PAGE_SIZE, continue: token };
        const outcome = await connection.bytes(path, { query, signal: link.signal });
        if (outcome.kind !== 'ok') return failed(describeFailure(outcome));
        return readList(outcome.chunks, onReading);
      };
      try {
        return await readPages(readPage);
      } finally {
        clearTimeout(timer);
        link.release();
      }
    },
  };
}

async function readPages(
  readPage: (token: string | undefined) => Promise<MetricsPage>,
): Promise<PodMetricsOutcome> {
  let token: string | undefined;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const outcome = await readPage(token);
    if (outcome.kind === 'failed') return outcome;
    if (outcome.next === undefined) return { kind: 'read' };
    token = outcome.next;
  }
  return failed(`no end after ${MAX_PAGES} pages`);
}

async function readList(
  chunks: AsyncIterable<Uint8Array>,
  onReading: (reading: PodReading) => void,
): Promise<MetricsPage> {
  const scanner = new ItemScanner((item) => onReading(readingOf(item)));
  const decoder = new TextDecoder();
  try {
    for await (const chunk of chunks) scanner.push(decoder.decode(chunk, { stream: true }));
  } catch (error) {
    return failed(error instanceof Error ? error.message : 'cut off');
  }
  const list = scanner.end();
  if (list === undefined) return failed('the answer is not a Kubernetes list');
  return { kind: 'page', next: textAt(recordAt(list, 'metadata'), 'continue') };
}

type Failed = Extract<PodMetricsOutcome, { kind: 'failed' }>;

function failed(reason: string): Failed {
  return { kind: 'failed', reason };
}

function readingOf(item: unknown): PodReading {
  const object = isRecord(item) ? item : {};
  const metadata = recordAt(object, 'metadata');
  const namespace = textAt(metadata, 'namespace') ?? '';
  const name = textAt(metadata, 'name');
  if (name === undefined) return malformed('PodMetrics without a name', 'metadata', metadata);
  let cpu = 0n;
  let memory = 0n;
  for (const container of listAt(object, 'containers')) {
    const usage = recordAt(container, 'usage');
    const cores = amountAt(usage, 'cpu');
    const bytes = amountAt(usage, 'memory');
    if (cores === undefined || bytes === undefined) {
      return malformed('not a quantity', `usage of pod ${namespace}/${name}`, usage);
    }
    cpu += cores;
    memory += bytes;
  }
  return { kind: 'usage', namespace, name, cpu: Number(cpu), memory: Number(memory / NANOS) };
}

const NANOS = 1_000_000_000n;
const QUOTED_CHARACTERS = 120;

function malformed(what: string, where: string, input: unknown): PodReading {
  const text = JSON.stringify(input).slice(0, QUOTED_CHARACTERS);
  return { kind: 'malformed', problem: `${what}: ${where}: ${text}` };
}

/** An object in etcd has at most 1.5 MiB; anything larger is not an item. */
const MAX_ITEM_LENGTH = 4 * 1024 * 1024;
/** The text around the items of a list has a few hundred bytes. */
const MAX_FRAME_LENGTH = 64 * 1024;

const QUOTE = 34;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/** Nesting depth of the elements of the list's own `items` array. */
const ITEM_DEPTH = 2;

/**
 * Cuts the items out of the text of a Kubernetes list as it arrives. The metrics server does not
 * page, so an answer can be as large as the cluster. Only one item is in memory at a time.
 */
export class ItemScanner {
  readonly #onItem: (item: unknown) => void;
  #depth = 0;
  #inString = false;
  /** The previous chunk ended with a backslash that escapes the first character of the next. */
  #escaped = false;
  #inItems = false;
  /** Text outside of items, with an empty array in their place. */
  #frame = '';
  /** Text of an item that began in an earlier chunk. */
  #item = '';
  /** Start of the text in the current chunk that is not stored yet. */
  #start = 0;

  constructor(onItem: (item: unknown) => void) {
    this.#onItem = onItem;
  }

  /**
   * Reads the next chunk of the text. Throws a SyntaxError if an item is not JSON, and a RangeError
   * if an item or the text around the items is too large.
   */
  push(text: string): void {
    this.#start = 0;
    let position = 0;
    while (position < text.length) {
      if (this.#inString) {
        position = this.#endOfString(text, position);
        continue;
      }
      const code = text.charCodeAt(position);
      position += 1;
      if (code === QUOTE) this.#inString = true;
      else if (code === OPEN_BRACE || code === OPEN_BRACKET) this.#open(code, text, position);
      else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) this.#close(text, position);
    }
    this.#store(text.slice(this.#start));
  }

  /** The list without its items; undefined if the text was not a list. */
  end(): Readonly<Record<string, unknown>> | undefined {
    if (this.#depth !== 0 || this.#inString) return undefined;
    const list = parseJson(this.#frame);
    return isRecord(list) && 'items' in list ? list : undefined;
  }

  #store(text: string): void {
    if (this.#inItems && this.#depth > ITEM_DEPTH) this.#item += text;
    else if (!this.#inItems) this.#frame += text;
    if (this.#item.length > MAX_ITEM_LENGTH) throw new RangeError('list: an item is too large');
    if (this.#frame.length > MAX_FRAME_LENGTH) throw new RangeError('list: not a list of items');
  }

  /** The position after the string that continues at `from`; the text's length if unfinished. */
  #endOfString(text: string, from: number): number {
    let search = this.#escaped ? from + 1 : from;
    for (;;) {
      const quote = text.indexOf('"', search);
      const end = quote === -1 ? text.length : quote;
      this.#escaped = isEscaped(text, search, end);
      if (quote === -1) return end;
      if (!this.#escaped) {
        this.#inString = false;
        return quote + 1;
      }
      search = quote + 1;
      this.#escaped = false;
    }
  }

  /** Handles the opening character before `position`. */
  #open(code: number, text: string, position: number): void {
    if (this.#inItems) {
      if (this.#depth === ITEM_DEPTH) this.#start = position - 1;
    } else if (code === OPEN_BRACKET && this.#depth === 1) {
      const before = text.slice(this.#start, position);
      if (/"items"\s*:\s*\[$/.test(this.#frame + before)) {
        this.#store(before);
        this.#start = position;
        this.#inItems = true;
      }
    }
    this.#depth += 1;
  }

  /** Handles the closing character before `position`. */
  #close(text: string, position: number): void {
    if (this.#inItems && this.#depth === ITEM_DEPTH) {
      this.#inItems = false;
      this.#start = position - 1;
    } else if (this.#inItems && this.#depth === ITEM_DEPTH + 1) {
      this.#store(text.slice(this.#start, position));
      this.#onItem(JSON.parse(this.#item));
      this.#item = '';
      this.#start = position;
    }
    this.#depth -= 1;
  }
}

/** Whether an odd number of backslashes precedes the character at `end`, counted back to `from`. */
function isEscaped(text: string, from: number, end: number): boolean {
  let first = end;
  while (first > from && text.charCodeAt(first - 1) === BACKSLASH) first -= 1;
  return (end - first) % 2 === 1;
}
