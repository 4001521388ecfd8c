import { useCallback, useEffect, useState } from './preact.js';
import { shownCluster } from './location.js';
import { tab } from './storage.js';

/** A failed request, with the API's error text. */
export class ApiError extends Error {
  /** @param {number} status 0 when there was no answer at all. @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const TIMEOUT_MS = 30_000;
const SHARED_AGE_S = 30;
const BUSY_MS = 1500;

/** @type {Set<() => void>} */
const refusedListeners = new Set();

let tokenKey = 'meterfeed-token';

/** The token lives as long as this tab, and goes nowhere but into the Authorization header. */
export const token = {
  get: () => tab.get(tokenKey) ?? '',
  /** @param {string} value */
  set: (value) => tab.set(tokenKey, value),
  /**
   * Sets the key in the tab's storage, so that pages for other readers have a separate token.
   * @param {string} key
   */
  keepAs: (key) => {
    tokenKey = key;
  },
};

/**
 * Calls the listener whenever the API refuses a token (401). Returns a function that ends this.
 * @param {() => void} listener
 */
export function onRefused(listener) {
  refusedListeners.add(listener);
  return () => void refusedListeners.delete(listener);
}

/**
 * A path of the API with its parameters; empty ones are left out.
 * @param {string} path
 * @param {Record<string, string | number | undefined>} [parameters]
 */
export function url(path, parameters = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== '') search.set(name, String(value));
  }
  const query = search.toString();
  return query === '' ? path : `${path}?${query}`;
}

/** The address that covers all clusters of a fleet, whichever one is shown. */
const OF_ALL = '/api/v1/fleet';

/**
 * The address with the parameter `cluster` of the shown cluster.
 * @param {string} address
 * @param {string | undefined} cluster
 */
function ofCluster(address, cluster) {
  if (cluster === undefined || !address.startsWith('/api/') || address === OF_ALL) return address;
  return `${address}${address.includes('?') ? '&' : '?'}cluster=${encodeURIComponent(cluster)}`;
}

/**
 * @param {string} address
 * @param {{ method?: string, body?: unknown, signal?: AbortSignal, patience?: number }} [options]
 * @returns {Promise<Response>}
 */
async function request(address, { method = 'GET', body, signal, patience = TIMEOUT_MS } = {}) {
  const bearer = token.get();
  const timeout = AbortSignal.timeout(patience);
  let response;
  try {
    response = await fetch(ofCluster(address, shownCluster()), {
      method,
      headers: {
        Accept: 'application/json',
        // Cached sums are enough, so that many viewers cost as much as one.
        'Cache-Control': `max-age=${SHARED_AGE_S}`,
        ...(bearer === '' ? {} : { Authorization: `Bearer ${bearer}` }),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      },
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(
      0,
      'No connection to the operator. Check that it is running and that the port-forward is still active.',
    );
  }
  if (response.ok) return response;
  if (response.status === 401) for (const listener of refusedListeners) listener();
  throw new ApiError(response.status, await errorText(response));
}

/** @param {Response} response */
async function errorText(response) {
  try {
    const body = await response.json();
    if (typeof body?.error === 'string') return body.error;
    if (Array.isArray(body?.errors)) return body.errors.join('; ');
  } catch {
    // Not JSON: a proxy has answered.
  }
  return `HTTP ${response.status} ${response.statusText}`;
}

/**
 * Reads an address: NDJSON as `{ items }`, a document as `{ text }`, anything else as JSON. Retries
 * while the operator is busy (503).
 * @param {string} address
 * @param {{ signal?: AbortSignal, attempts?: number, patience?: number }} [options] patience in
 *   milliseconds
 * @returns {Promise<any>}
 */
export async function read(address, { signal, attempts = 3, patience = TIMEOUT_MS } = {}) {
  let response;
  try {
    response = await request(address, { patience, ...(signal === undefined ? {} : { signal }) });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 503 || attempts <= 1) throw error;
    await new Promise((resolve) => setTimeout(resolve, BUSY_MS));
    return read(address, {
      patience,
      attempts: attempts - 1,
      ...(signal === undefined ? {} : { signal }),
    });
  }
  const type = response.headers.get('Content-Type') ?? '';
  if (/markdown|yaml/.test(type)) return { text: await response.text() };
  if (!type.includes('ndjson')) return response.json();
  const lines = (await response.text()).split('\n').filter((line) => line !== '');
  return { items: lines.map((line) => JSON.parse(line)) };
}

/**
 * @param {string} address
 * @param {unknown} body a text is JSON already, so that its numbers keep every digit
 * @param {string} [method]
 */
export async function change(address, body, method = 'POST') {
  const response = await request(address, { method, body });
  return response.status === 204 ? undefined : response.json();
}

/**
 * Saves an answer as a file, under the name that the operator gives. A link could not carry the
 * token.
 * @param {string} address
 */
export async function download(address) {
  const response = await request(address);
  const blob = await response.blob();
  const named = /filename="?([^";]+)/.exec(response.headers.get('Content-Disposition') ?? '');
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = named?.[1] ?? '';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * Reads an address, and again every `everyMs` while the tab is visible. The data stays until new
 * data replaces it.
 * @param {string | undefined} address undefined reads nothing
 * @param {number} [everyMs]
 * @returns {{ data: any, error: ApiError | undefined, loading: boolean, reload: () => void }}
 */
export function useApi(address, everyMs) {
  // Data of one cluster is never shown for another.
  const key = address === undefined ? '' : ofCluster(address, shownCluster());
  const [state, setState] = useState(
    /** @type {{ key?: string, data?: any, error?: ApiError | undefined }} */ ({}),
  );
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    if (address === undefined) return undefined;
    const stop = new AbortController();
    const refresh = () => {
      if (document.hidden) return;
      read(address, { signal: stop.signal }).then(
        (data) => !stop.signal.aborted && setState({ key, data }),
        (error) => {
          if (stop.signal.aborted) return;
          const failure = error instanceof ApiError ? error : new ApiError(0, String(error));
          setState((last) =>
            last.key === key ? { ...last, error: failure } : { key, error: failure },
          );
        },
      );
    };
    refresh();
    const timer = everyMs === undefined ? undefined : setInterval(refresh, everyMs);
    document.addEventListener('visibilitychange', refresh);
    return () => {
      stop.abort();
      clearInterval(timer);
      document.removeEventListener('visibilitychange', refresh);
    };
  }, [key, everyMs, attempt]);
  const current = state.key === key ? state : {};
  const reload = useCallback(() => setAttempt((n) => n + 1), []);
  const { data, error } = current;
  return { data, error, loading: data === undefined && error === undefined, reload };
}
