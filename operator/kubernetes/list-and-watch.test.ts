import { expect, test } from 'vitest';
import type { RequestOutcome } from './connection.ts';
import { followWatch, readPages } from './list-and-watch.ts';

/** Reads a list from a server whose answers depend on the requested limits. */
async function listFrom(
  answer: (limit: number, from: number) => RequestOutcome,
  pageSize: number | undefined,
) {
  const limits: number[] = [];
  const names: unknown[] = [];
  const outcome = await readPages({
    connection: {
      request: async (_path, options) => {
        const limit = Number(options?.query?.['limit']);
        limits.push(limit);
        return answer(limit, Number(options?.query?.['continue'] ?? 0));
      },
    },
    path: '/api/v1/pods',
    query: {},
    signal: new AbortController().signal,
    onItem: (object) => names.push(object['name']),
    pageSize,
  });
  return { outcome, limits, names };
}

function page(names: readonly object[], next = ''): RequestOutcome {
  const metadata = { resourceVersion: '1', continue: next };
  return { kind: 'ok', status: 200, body: { kind: 'PodList', metadata, items: names } };
}

const TOO_LARGE: RequestOutcome = { kind: 'network', message: 'too large', tooLarge: true };

test('a page of large objects is requested again with fewer, and none is missing', async () => {
  const all = Array.from({ length: 30 }, (_, name) => ({ name }));
  const { outcome, limits, names } = await listFrom((limit, from) => {
    if (limit > 12) return TOO_LARGE;
    const end = from + limit;
    return page(all.slice(from, end), end < all.length ? `${end}` : '');
  }, 100);
  expect(outcome).toEqual({ kind: 'complete', resourceVersion: '1' });
  expect(limits).toEqual([100, 12, 12, 12]);
  expect(names).toEqual(all.map(({ name }) => name));
});

test('an object that is too large by itself fails the list, and is not requested repeatedly', async () => {
  const { outcome, limits } = await listFrom(() => TOO_LARGE, 100);
  expect(outcome).toEqual({ kind: 'failed', failure: TOO_LARGE });
  expect(limits).toEqual([100, 12, 1]);
});

test('a page with many more objects than requested is no list, and none of it is applied', async () => {
  const flood = page(Array.from({ length: 1001 }, () => ({})));
  const { outcome, names } = await listFrom(() => flood, 100);
  expect(outcome).toMatchObject({ kind: 'failed', failure: { kind: 'network' } });
  expect(names).toEqual([]);
  const trusted = await listFrom(() => flood, undefined);
  expect(trusted.outcome.kind).toBe('complete');
});

test('a burst of watch events that has arrived in one piece leaves others their turns', async () => {
  const EVENTS = 20;
  let elapsedMs = 0;
  const clock = {
    now: () => 0,
    monotonic: () => elapsedMs,
    sleep: () => new Promise<void>(() => undefined),
  };
  async function* lines(): AsyncGenerator<string> {
    for (let index = 1; index <= EVENTS; index++) {
      yield JSON.stringify({
        type: 'BOOKMARK',
        object: { metadata: { resourceVersion: `${index}` } },
      });
    }
  }
  let others = 0;
  const probe = (): void => {
    others++;
    if (taken < EVENTS) setImmediate(probe);
  };
  let taken = 0;
  setImmediate(probe);
  const end = await followWatch({
    connection: { stream: async () => ({ kind: 'ok', lines: lines() }) },
    path: '/api/v1/pods',
    query: {},
    signal: new AbortController().signal,
    clock,
    inactivityMs: 60_000,
    onOpen: () => undefined,
    onEvent: () => {
      taken++;
      elapsedMs += 10;
    },
    onGarbage: () => undefined,
  });
  expect(end).toEqual({ kind: 'closed', ended: true });
  expect(taken).toBe(EVENTS);
  // Every third event ends a slice of 25 ms.
  expect(others).toBeGreaterThanOrEqual(6);
});
