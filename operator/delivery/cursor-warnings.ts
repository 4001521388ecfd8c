import type { Destination } from '../destinations/destination.ts';

const HOUR_MS = 3_600_000;

/** What an operator should know who moves a cursor by hand. */
export function cursorWarnings(
  from: number,
  to: number,
  { limits, verify }: Pick<Destination, 'limits' | 'verify'>,
): readonly string[] {
  if (to > from) return [`${to - from} events are skipped: they will not be delivered`];
  if (to === from) return [];
  const warnings = [`${from - to} events are sent again`];
  const { idMemoryMs, maxAgeMs } = limits;
  if (idMemoryMs !== undefined) {
    const check =
      verify === undefined ? 'become dead letters' : 'are asked after before they are sent';
    warnings.push(
      `the destination remembers ids for ${idMemoryMs / HOUR_MS} hours: events that it may have had before ${check}`,
    );
  }
  if (maxAgeMs !== undefined) {
    warnings.push(
      `events older than ${maxAgeMs / HOUR_MS} hours are not accepted and become dead letters`,
    );
  }
  return warnings;
}
