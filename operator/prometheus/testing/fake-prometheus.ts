import { setTimeout as delay } from 'node:timers/promises';
import { startTestServer } from '../../outbound/testing/test-server.ts';

/** A query as it arrived. */
export interface ReceivedQuery {
  readonly query: string;
  /** Seconds since the epoch, as text. */
  readonly time: string;
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, unknown>>;
}

/** One row of an answer, or a complete answer of another kind. */
export type FakeRow = readonly [labels: Readonly<Record<string, string>>, value: string];
export type FakeAnswer =
  | readonly FakeRow[]
  | { readonly status: number; readonly body: string; readonly headers?: Record<string, string> }
  /** The connection is cut. */
  | 'cut';

export interface FakePrometheus {
  readonly url: string;
  readonly queries: ReceivedQuery[];
  /** How each query is answered. */
  answer: (requested: ReceivedQuery) => FakeAnswer;
  close(): Promise<void>;
}

/** A server of the Prometheus query API whose answers a test writes. */
export async function startFakePrometheus(
  answer: FakePrometheus['answer'] = () => [],
): Promise<FakePrometheus> {
  const received: ReceivedQuery[] = [];
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
    received.push(query);
    // Real answers take time, so that several are in progress at once.
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
  return Object.assign(fake, { url: server.url, queries: received, close: () => server.close() });
}

/** Prometheus's answer for a query that it cannot evaluate. */
export function queryError(status = 422, errorType = 'execution', error = 'no'): FakeAnswer {
  return { status, body: JSON.stringify({ status: 'error', errorType, error }) };
}
