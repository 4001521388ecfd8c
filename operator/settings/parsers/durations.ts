import {
  invalid,
  type Parsed,
  type ParseProblem,
  type Parser,
  parseOrThrow,
  valid,
} from './parser.ts';

const NANOS_PER_MILLISECOND = 1_000_000n;

/** Nanoseconds of each unit: those of Go, and days. */
const UNIT_NANOS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n,
  μs: 1_000n,
  ms: NANOS_PER_MILLISECOND,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
  d: 86_400_000_000_000n,
};

const TERM = /(\d+)(?:\.(\d{1,18}))?(ns|us|µs|μs|ms|s|m|h|d)/y;
const FIX = 'write it as in 90s, 1h30m or 7d';

/** Milliseconds of a duration in Go's syntax plus `d`. It must be whole milliseconds. */
export function parseDuration(text: string): Parsed<number> {
  if (text === '0') return valid(0);
  if (text.startsWith('-')) return invalid('a negative duration', FIX);
  if (text === '' || text.length > 64) return invalid('not a duration', FIX);
  let nanos = 0n;
  TERM.lastIndex = 0;
  while (TERM.lastIndex < text.length) {
    const match = TERM.exec(text);
    if (match === null) return invalid('not a duration', FIX);
    const [, complete = '', fraction = '', unit = ''] = match;
    const scale = 10n ** BigInt(fraction.length);
    const scaled = BigInt(complete + fraction) * (UNIT_NANOS[unit] ?? 0n);
    if (scaled % scale !== 0n) return invalid('finer than a nanosecond', FIX);
    nanos += scaled / scale;
  }
  if (nanos % NANOS_PER_MILLISECOND !== 0n) return invalid('finer than a millisecond', FIX);
  const milliseconds = nanos / NANOS_PER_MILLISECOND;
  if (milliseconds > BigInt(Number.MAX_SAFE_INTEGER)) return invalid('too long', FIX);
  return valid(Number(milliseconds));
}

/** A duration from `least` to `most`, both included. The value is in milliseconds. */
export function duration(least: string, most: string): Parser<number> {
  const parser = { accepts: '', parse: parseDuration };
  const [low, high] = [parseOrThrow(parser, least), parseOrThrow(parser, most)];
  return {
    accepts: `${least} to ${most}`,
    parse(text) {
      const parsed = parseDuration(text);
      if (parsed.kind === 'problem') return parsed;
      if (parsed.value < low) return invalid('too short', `must be between ${least} and ${most}`);
      if (parsed.value > high) return invalid('too long', `must be between ${least} and ${most}`);
      return parsed;
    },
  };
}

const HOUR_MS = 3_600_000;
const SECOND_MS = 1_000;

/**
 * The window size: `least` to 1h. It divides an hour, so that windows align with billing hours. It
 * has whole seconds, because event ids contain times to the second (docs/reference/events.md#ids).
 */
export function windowSize(least = '10s'): Parser<number> {
  const range = duration(least, '1h');
  return {
    accepts: `${least} to 1h, whole seconds, a divisor of an hour`,
    parse(text) {
      const parsed = range.parse(text);
      if (parsed.kind === 'problem') return parsed;
      if (parsed.value % SECOND_MS === 0 && HOUR_MS % parsed.value === 0) return parsed;
      return invalid(
        'does not divide an hour into windows of whole seconds',
        'take one of 10s, 15s, 20s, 30s, 60s, 2m, 5m, 10m, 15m, 30m, 1h or the like',
      );
    },
  };
}

/**
 * Returns the problem of a settling delay that is not shorter than the window; both in
 * milliseconds. A window must close before the next one ends. Each value may come from the
 * environment or a MeteringPolicy, so both layers call this.
 */
export function settlingProblem(
  settlingDelayMs: number,
  windowMs: number,
): ParseProblem | undefined {
  if (settlingDelayMs < windowMs) return undefined;
  return invalid('not shorter than the window', 'shorten the delay or lengthen the window');
}
