import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { refused } from './answers.ts';
import type { MetronomeState } from './state.ts';

const MEMORY_MS = 86_400_000;
const TOO_MANY_REQUESTS = 429;

/**
 * What was answered to the same key before, errors included; other parameters are a conflict
 * (docs/destinations/metronome.md#how-metronome-answers).
 */
export function replayed(
  state: MetronomeState,
  request: FakeRequest,
  at: number,
): FakeResponse | undefined {
  const key = keyOf(request);
  const stored = key === undefined ? undefined : state.results.get(key);
  if (stored === undefined || at - stored.at >= MEMORY_MS) return undefined;
  if (stored.request === fingerprint(request)) return stored.response;
  return refused(409, 'the idempotency key was used with other parameters');
}

export function storeResult(
  state: MetronomeState,
  request: FakeRequest,
  response: FakeResponse,
  at: number,
): void {
  const key = keyOf(request);
  if (key === undefined || response.status === TOO_MANY_REQUESTS) return;
  state.results.set(key, { request: fingerprint(request), response, at });
}

function keyOf({ method, headers }: FakeRequest): string | undefined {
  return method === 'POST' ? headers['idempotency-key'] : undefined;
}

function fingerprint({ method, path, body }: FakeRequest): string {
  return `${method} ${path} ${body}`;
}
