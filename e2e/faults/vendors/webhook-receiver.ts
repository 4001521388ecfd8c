import { parseBatch, USAGE_EVENT_PREFIX } from '../../receiver/batch.ts';
import { CONTROL_PREFIX, type FakeRequest, type FakeResponse } from '../../fakes/fake-server.ts';
import { startFakeServer } from '../../fakes/fake-server.ts';
import { type Billed, type StandIn, TRUE_TIME_HEADER } from './stand-in.ts';

export interface WebhookReceiverOptions {
  /** How long an id is remembered from when it was first taken; for ever when absent. */
  readonly idMemoryMs?: number;
}

/**
 * A webhook receiver that deduplicates by source and id, as consumers must
 * (docs/how-to/destinations/webhook.md#what-is-sent). `POST /known`
 * says which ids it has ever taken; `POST /_fake/halves` with a number makes it keep the first half of
 * so many batches and fail.
 */
export async function startWebhookReceiver(options: WebhookReceiverOptions): Promise<StandIn> {
  const memoryMs = options.idMemoryMs ?? Number.POSITIVE_INFINITY;
  const billed: Billed[] = [];
  const takenAt = new Map<string, number>();
  let repeats = 0;
  let halves = 0;

  const take = (key: string, id: string, content: string, now: number): void => {
    const before = takenAt.get(key);
    if (before !== undefined && now - before < memoryMs) {
      repeats += 1;
      return;
    }
    takenAt.set(key, now);
    billed.push({ id, content });
  };
  const receive = (request: FakeRequest): FakeResponse => {
    const batch = parseBatch(request.headers['content-type'] ?? '', request.body);
    if (batch.kind === 'refused') return { status: 415, body: batch.reason };
    const now = Number(request.headers[TRUE_TIME_HEADER]);
    const usage = batch.events.filter(({ type }) => type.startsWith(USAGE_EVENT_PREFIX));
    const tear = halves > 0 && usage.length > 1;
    const taken = tear ? usage.slice(0, Math.floor(usage.length / 2)) : usage;
    for (const { source, id, data } of taken) {
      take(`${source}\0${id}`, id, JSON.stringify(data), now);
    }
    if (!tear) return { status: 200 };
    halves -= 1;
    return { status: 500 };
  };

  const server = await startFakeServer({
    handle: (request) => {
      if (request.path === `${CONTROL_PREFIX}halves`) {
        halves = Number(request.body);
        return { status: 204 };
      }
      if (request.path === '/known') {
        const ids = new Set(billed.map(({ id }) => id));
        const queried = JSON.parse(request.body) as readonly string[];
        return { status: 200, body: queried.filter((id) => ids.has(id)) };
      }
      return receive(request);
    },
  });
  return {
    url: server.url,
    billed: () => billed,
    repeats: () => repeats,
    close: () => server.close(),
  };
}
