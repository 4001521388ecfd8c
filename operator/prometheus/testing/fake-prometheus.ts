import { setTimeout as delay } from 'node:timers/promises';
import { startTestServer } from '../../outbound/testing/test-server.ts';

/** A query as it arrived. */
export interface RequestedQuery {
  readonly query: string;
  /** Seconds since the epoch, as text. */
  readonly time: string;
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, unknown>>;
}

/** One row of an answer, or a whole answer of another kind. */
export type FakeRow = readonly [labels: Readonly<Record<string, string>>, value: string];
export type FakeAnswer =
  | readonly FakeRow[]
  | { readonly status: number; readonly body: string; readonly headers?: Record<string, string> }
  /** The connection is cut. */
  | 'cut';

export interface FakePrometheus {
  readonly url: string;
  readonly queries: RequestedQuery[];
  /** How each query is answered. */
  answer: (requested: RequestedQuery) => FakeAnswer;
  close(): Promise<void>;
}

/** A server of the Prometheus query API whose answers a test writes. */
export async function startFakePrometheus(
  answer: FakePrometheus['answer'] = () => [],
): Promise<FakePrometheus> {
  const requested: RequestedQuery[] = [];
  const fake = { answer };
  const server = await startTestServer(async ({ method, url, headers, body }, response, socket) => {
    const form = new URLSearchParams(body);
    const query = {
      query: form.get('query') ?? '',
      time: form.get('time') ?? '',
      method,
      url,
      headers,
    };
    requested.push(query);
    // Real answers take their time, so that several are under way at once.
    await delay(1);
    const given = fake.answer(query);
    if (given === 'cut') {
      socket.destroy();
      return;
    }
    if ('status' in given) {
      response.writeHead(given.status, given.headers).end(given.body);
      return;
    }
    const at = Number(query.time);
    const result = given.map(([metric, value]) => ({ metric, value: [at, value] }));
    response.end(JSON.stringify({ status: 'success', data: { resultType: 'vector', result } }));
  });
  return Object.assign(fake, { url: server.url, queries: requested, close: () => server.close() });
}

/** What Prometheus says of a query that it cannot evaluate. */
export function queryError(status = 422, errorType = 'execution', error = 'no'): FakeAnswer {
  return { status, body: JSON.stringify({ status: 'error', errorType, error }) };
}
