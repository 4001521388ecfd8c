/** A reading at a moment, in hours from the beginning. */
export interface Reading {
  readonly hours: number;
  readonly value: number;
}

/** How much a reading changes in an hour: the line that is closest to all of them by least squares. 0 of fewer than two. */
export function slopePerHour(readings: readonly Reading[]): number {
  const mean = (of: (reading: Reading) => number): number =>
    readings.reduce((sum, reading) => sum + of(reading), 0) / Math.max(1, readings.length);
  const at = mean(({ hours }) => hours);
  const level = mean(({ value }) => value);
  const spread = mean(({ hours }) => (hours - at) ** 2);
  if (spread === 0) return 0;
  return mean(({ hours, value }) => (hours - at) * (value - level)) / spread;
}
