import type { Findings } from '../metering/findings.ts';
import type { Window } from '../model/window.ts';
import type { Gap } from './gaps.ts';

/**
 * The gaps of usage that nobody sampled: one for each tenant cluster, or a single one for all (`*`)
 * while the metrics API cannot be read at all.
 */
export function unsampledGaps(
  window: Window,
  { unsampled }: Findings,
  failure: { readonly reason: string; readonly since: number } | undefined,
): readonly Gap[] {
  if (unsampled.size === 0) return [];
  const reason = failure?.reason ?? 'pods without samples';
  if (failure === undefined || failure.since > window.start) {
    return [...unsampled].map(([scope, { from, to }]) => ({
      source: 'metrics',
      scope,
      from,
      to,
      reason,
    }));
  }
  const stretches = [...unsampled.values()];
  const from = stretches.reduce((least, stretch) => Math.min(least, stretch.from), Infinity);
  const to = stretches.reduce((most, stretch) => Math.max(most, stretch.to), 0);
  return [{ source: 'metrics', scope: '*', from, to, reason }];
}
