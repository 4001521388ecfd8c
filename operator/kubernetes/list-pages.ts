import type { Connection, QueryValue } from './connection.ts';
import { metadataOf } from './object-metadata.ts';
import { isRawObject, type RequestFailure } from './outcome.ts';
import type { RawObject } from './source.ts';

/** `expired`: the version that the pages belong to is gone; begin again. `absent`: the resource is not served. */
export type ListOutcome =
  | { readonly kind: 'complete'; readonly resourceVersion: string }
  | { readonly kind: 'expired' }
  | { readonly kind: 'absent' }
  | { readonly kind: 'failed'; readonly failure: RequestFailure };

export interface ListPagesOptions {
  readonly connection: Pick<Connection, 'request'>;
  readonly path: string;
  /** Selectors, and the version when it must be an exact one. */
  readonly query: Readonly<Record<string, QueryValue>>;
  readonly signal: AbortSignal;
  readonly onItem: (object: RawObject) => void;
}

const PAGE_SIZE = 500;
/** A page of large objects from a busy server takes longer than an ordinary request. */
const PAGE_TIMEOUT_MS = 30_000;

/**
 * Reads a whole list page by page, holding one page at a time. All pages show the same moment.
 * Items seen before a failure were there, but those not seen prove nothing.
 */
export async function readPages(options: ListPagesOptions): Promise<ListOutcome> {
  let resourceVersion: string | undefined;
  let token: string | undefined;
  do {
    // The version is part of the token, and the server refuses both together.
    const position =
      token === undefined
        ? {}
        : { continue: token, resourceVersion: undefined, resourceVersionMatch: undefined };
    const query = { ...options.query, ...position, limit: PAGE_SIZE };
    const outcome = await options.connection.request(options.path, {
      query,
      signal: options.signal,
      timeoutMs: PAGE_TIMEOUT_MS,
    });
    if (outcome.kind === 'status' && outcome.code === 410) return { kind: 'expired' };
    if (outcome.kind === 'status' && outcome.code === 404) return { kind: 'absent' };
    if (outcome.kind !== 'ok') return { kind: 'failed', failure: outcome };
    const page = parsePage(outcome.body);
    if (page === undefined) return NOT_A_LIST;
    for (const item of page.items) {
      if (isRawObject(item)) options.onItem({ ...page.typeMeta, ...item });
    }
    resourceVersion ??= page.resourceVersion;
    token = page.next;
  } while (token !== undefined);
  return { kind: 'complete', resourceVersion };
}

const NOT_A_LIST: ListOutcome = {
  kind: 'failed',
  failure: { kind: 'network', message: 'the answer is not a Kubernetes list' },
};

interface Page {
  /** Items of a list leave out what the list says for all of them; events carry it. */
  readonly typeMeta: { readonly apiVersion?: unknown; readonly kind?: string };
  readonly items: readonly unknown[];
  readonly resourceVersion: string;
  readonly next: string | undefined;
}

function parsePage(body: unknown): Page | undefined {
  const items = isRawObject(body) ? body['items'] : undefined;
  const { resourceVersion, continue: next } = metadataOf(body);
  if (typeof resourceVersion !== 'string') return undefined;
  // An empty list may be sent as null.
  if (!Array.isArray(items) && items !== null) return undefined;
  return {
    typeMeta: typeMetaOf(body),
    items: items ?? [],
    resourceVersion,
    next: typeof next === 'string' && next !== '' ? next : undefined,
  };
}

function typeMetaOf(list: unknown): Page['typeMeta'] {
  if (!isRawObject(list)) return {};
  const { apiVersion, kind } = list;
  if (typeof kind !== 'string' || !kind.endsWith('List')) return {};
  return { apiVersion, kind: kind.slice(0, -'List'.length) };
}
