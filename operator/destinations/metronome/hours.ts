const HOUR_MS = 3_600_000;

/** Contracts and products begin and end on full hours (facts 3.3, 3.5). Milliseconds since the epoch. */
export function hourAtOrBefore(ms: number): number {
  return Math.floor(ms / HOUR_MS) * HOUR_MS;
}

export function hourAtOrAfter(ms: number): number {
  return Math.ceil(ms / HOUR_MS) * HOUR_MS;
}

/** The first full hour that is still to come. */
export function nextHour(ms: number): number {
  return hourAtOrBefore(ms) + HOUR_MS;
}
