import type { PrometheusSettings } from '../settings/settings.ts';
import type { HttpClient } from '../outbound/http-client.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { type QueryOutcome, readAnswer } from './query-answer.ts';

const PATH = '/api/v1/query';
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

const TIMEOUTS = { connect: 5_000, headers: 30_000, body: 10_000, total: 30_000 };
/** Shorter than the client's own timeout, so that the server stops first. */
const SERVER_TIMEOUT = '25s';

const TOKEN = /^[\x21-\x7e]{1,16384}$/;

/** Shorter values would mask ordinary words. */
const SHORTEST_HIDDEN = 6;

type Authorization =
  | { readonly kind: 'headers'; readonly headers: Readonly<Record<string, string>> }
  | { readonly kind: 'problem'; readonly reason: string };

/**
 * A client of `POST /api/v1/query` below PROMETHEUS_URL, for any server with the Prometheus query
 * API. It sends queries as a form, so they may have any length. An Authorization header wins over a
 * token, and a token wins over name and password.
 */
export class PrometheusClient {
  readonly #http: HttpClient;
  readonly #settings: Omit<PrometheusSettings, 'url'>;
  readonly #readText: (path: string) => Promise<string>;

  constructor(options: {
    readonly outbound: Outbound;
    readonly url: string;
    readonly settings: Omit<PrometheusSettings, 'url'>;
    /** Reads PROMETHEUS_BEARER_TOKEN_FILE. */
    readonly readText: (path: string) => Promise<string>;
    /** Parallel queries. */
    readonly connections: number;
  }) {
    this.#settings = options.settings;
    this.#readText = options.readText;
    this.#http = options.outbound.client({
      name: 'prometheus',
      baseUrl: options.url,
      timeouts: TIMEOUTS,
      connections: options.connections,
      responseBytes: MAX_ANSWER_BYTES,
    });
  }

  /** Evaluates a query at a time, milliseconds since the epoch. Never throws. */
  async query(
    promql: string,
    at: number,
    signal?: AbortSignal,
    mostBytes: number = MAX_ANSWER_BYTES,
  ): Promise<QueryOutcome> {
    const authorized = await this.#authorization();
    if (authorized.kind === 'problem') {
      return { kind: 'failed', cause: 'server', reason: authorized.reason };
    }
    return this.#send(authorized.headers, promql, at, mostBytes, signal);
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  async #send(
    authorization: Readonly<Record<string, string>>,
    promql: string,
    at: number,
    mostBytes: number,
    signal: AbortSignal | undefined,
  ): Promise<QueryOutcome> {
    const form = new URLSearchParams({
      query: promql,
      time: String(at / 1000),
      timeout: SERVER_TIMEOUT,
      // Only Thanos knows it: a missing store is then an error and not a warning.
      partial_response: 'false',
    });
    const outcome = await this.#http.request({
      method: 'POST',
      path: PATH,
      headers: {
        accept: 'application/json',
        ...authorization,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: form.toString(),
      responseBytes: mostBytes,
      signal,
    });
    if (outcome.kind === 'failed') {
      return { kind: 'failed', cause: 'server', reason: outcome.reason };
    }
    const what = `HTTP POST ${PATH}`;
    if (!outcome.complete) {
      const tooLarge = Buffer.byteLength(outcome.body) >= mostBytes;
      return tooLarge
        ? {
            kind: 'failed',
            cause: 'query',
            reason: `${what}: answer above ${mostBytes} bytes`,
          }
        : { kind: 'failed', cause: 'server', reason: `${what}: answer broken off` };
    }
    const answer = readAnswer(outcome.status, outcome.body);
    if (answer.kind === 'vector') return answer;
    // Masks credentials before cutting the reason, because a cut could leave a part of one.
    const cleaned = readAnswer(outcome.status, withoutCredentials(outcome.body, authorization));
    const { reason } = cleaned.kind === 'failed' ? cleaned : answer;
    return { ...answer, reason: `${what}: ${withoutCredentials(reason, authorization)}` };
  }

  async #authorization(): Promise<Authorization> {
    const settings = this.#settings;
    const { basicAuth, bearerToken, bearerTokenFile, credentialProblem } = settings;
    if (credentialProblem !== undefined) return { kind: 'problem', reason: credentialProblem };
    const own = Object.fromEntries(
      [...settings.headers].map(([name, value]) => [name.toLowerCase(), value.reveal()]),
    );
    if ('authorization' in own) return { kind: 'headers', headers: own };
    if (bearerToken !== undefined) return bearer(own, bearerToken.reveal());
    if (bearerTokenFile === undefined) {
      if (basicAuth === undefined) return { kind: 'headers', headers: own };
      const basic = Buffer.from(basicAuth.reveal()).toString('base64');
      return { kind: 'headers', headers: { ...own, authorization: `Basic ${basic}` } };
    }
    const token = await this.#readText(bearerTokenFile).catch(() => undefined);
    if (token === undefined) return tokenProblem('cannot be read', bearerTokenFile);
    if (!TOKEN.test(token.trim())) return tokenProblem('holds no token', bearerTokenFile);
    return bearer(own, token.trim());
  }
}

/** Masks the request's credentials in a text, in case the server repeats them. */
function withoutCredentials(text: string, headers: Readonly<Record<string, string>>): string {
  return Object.values(headers)
    .flatMap((value) => [value, value.replace(/^\S+ /, '')])
    .reduce(
      (clean, value) => (value.length < SHORTEST_HIDDEN ? clean : clean.replaceAll(value, '***')),
      text,
    );
}

function bearer(headers: Readonly<Record<string, string>>, token: string): Authorization {
  return { kind: 'headers', headers: { ...headers, authorization: `Bearer ${token}` } };
}

function tokenProblem(what: string, path: string): Authorization {
  return { kind: 'problem', reason: `PROMETHEUS_BEARER_TOKEN_FILE ${what}: "${path}"` };
}
