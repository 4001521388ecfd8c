import { least } from '../model/extremes.ts';
import type { KindWatch } from './kind-watch.ts';

/** An API server that has said nothing for this long since it was first asked counts as failing. */
const SILENCE_MS = 15_000;

/** Why the first of these watches fails, and since when any does; undefined while none does. `startedAt`: when the API was first asked. */
export function failureOf(
  watches: readonly Pick<KindWatch, 'resource' | 'health'>[],
  now: number,
  startedAt = Infinity,
): { readonly reason: string; readonly since: number } | undefined {
  const failing = watches.flatMap((watch) => {
    const { plural } = watch.resource;
    const { state, reason, since } = watch.health();
    if (state === 'failing') return [{ reason: `${plural}: ${reason}`, since }];
    const silent = state === 'starting' && now - startedAt > SILENCE_MS;
    return silent ? [{ reason: `${plural}: no answer yet`, since }] : [];
  });
  const [first] = failing;
  return first && { reason: first.reason, since: least(failing.map(({ since }) => since)) };
}
