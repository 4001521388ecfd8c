import { rememberLast } from '../../model/remember-last.ts';
import { formatInstant } from '../../model/window.ts';

/** Milliseconds since the epoch; 0 for a text that is no time. */
export const timeOf = rememberLast((text: string): number => {
  const time = Date.parse(text);
  return Number.isFinite(time) ? time : 0;
});

/** RFC 3339 in UTC: to the second for full seconds, else to the millisecond. */
export const instantText = rememberLast((ms: number): string =>
  ms % 1_000 === 0 ? formatInstant(ms) : new Date(ms).toISOString(),
);
