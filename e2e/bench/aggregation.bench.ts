import { parseArgs } from 'node:util';
import { measureDelivery, type RunFigures } from './aggregation/run.ts';

/**
 * More usage than a billing system's rate limit takes: with `aggregate: 1h` delivery keeps up, without it the
 * condition says why it does not (docs/scale-and-accuracy.md#delivery-under-a-rate-limit).
 */
const { values } = parseArgs({
  options: {
    series: { type: 'string', default: '12000' },
    /** Requests a second that the stand-in takes; a test key keeps to 20. */
    limit: { type: 'string', default: '20' },
    hours: { type: 'string', default: '3' },
    /** Hours of the run without aggregation. */
    plain: { type: 'string', default: '0.5' },
  },
});
const [series = 0, requestsPerSecond = 0] = [values.series, values.limit].map(Number);
const LONGEST_LAG = 2 * 3_600;

for (const aggregate of ['1h', 'none'] as const) {
  const hours = Number(aggregate === '1h' ? values.hours : values.plain);
  const figures = await measureDelivery({ aggregate, series, hours, requestsPerSecond });
  const of = `${series} series, windows of 60 s, ${requestsPerSecond} requests/s, aggregate: ${aggregate}, ${hours} h`;
  report(figures, of);
  const problem = aggregate === '1h' ? fallsBehind(figures) : keepsUp(figures);
  if (problem === undefined) continue;
  console.error(`aggregation: ${of}: ${problem}`);
  process.exitCode = 1;
}

function report(figures: RunFigures, of: string): void {
  const { lags, lastLag, requests, refused, meterEvents, rate, tooLow } = figures;
  for (const [hour, { highest, minutesBehind }] of lags.entries()) {
    print(`lag_max_hour_${hour + 1}`, highest, 's', of);
    print(`minutes_behind_hour_${hour + 1}`, minutesBehind, 'min', of);
  }
  print('lag_at_the_end', lastLag, 's', of);
  print('meter_events', meterEvents, 'events', of);
  print('requests', requests, 'requests', of);
  print('refused_as_too_fast', refused, 'requests', of);
  if (rate !== undefined) print('rate_in_use', rate.needed, 'events/s', of);
  print('billed', figures.billed, 'hours', of);
  print('used', figures.used, 'hours', of);
  print('RateLimitTooLow', tooLow ?? 'no', 'condition', of);
}

function print(figure: string, value: number | string, unit: string, of: string): void {
  const rounded = typeof value === 'number' ? Math.round(value * 10) / 10 : value;
  console.log(JSON.stringify({ bench: 'aggregation', figure, value: rounded, unit, of }));
}

function fallsBehind({ lags, lastLag, billed, used, tooLow }: RunFigures) {
  const highest = Math.max(...lags.map((hour) => hour.highest));
  if (highest >= LONGEST_LAG) return `delivery was ${Math.round(highest)} s behind`;
  if (lastLag > 0) return `delivery is still ${Math.round(lastLag)} s behind`;
  if (billed !== used) return `billed ${billed} of ${used} hours`;
  return tooLow === undefined ? undefined : `RateLimitTooLow: ${tooLow}`;
}

function keepsUp({ tooLow }: RunFigures) {
  return tooLow === undefined ? 'RateLimitTooLow is not told' : undefined;
}
