const BARS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/**
 * One bar for each value, the highest full. Nothing measured is a dot, so that it does not look
 * like a small value.
 */
export function sparkline(values: readonly number[]): string {
  const highest = values.reduce((most, value) => Math.max(most, value), 0);
  return values
    .map((value) => {
      if (value <= 0 || highest <= 0) return '·';
      return BARS[Math.min(Math.floor((value / highest) * BARS.length), BARS.length - 1)];
    })
    .join('');
}
