import { retryAfterMs } from '../../outbound/retry-after.ts';

const EPOCH_SECONDS = 1_000_000_000;

/**
 * How long an answer asks to wait, in milliseconds; undefined when it does not say. Metronome's own
 * client obeys `Retry-After-Ms` and `Retry-After`; the reset headers are what gateways send, in seconds
 * from now or since the epoch.
 */
export function rateLimitWaitMs(
  headers: Readonly<Record<string, string>>,
  now: number,
): number | undefined {
  const ms = Number(headers['retry-after-ms'] ?? 'none');
  if (Number.isFinite(ms) && ms >= 0) return Math.ceil(ms);
  const asked = retryAfterMs(headers['retry-after'], now);
  if (asked !== undefined) return asked;
  const reset = headers['x-ratelimit-reset'] ?? headers['ratelimit-reset'];
  const seconds = Number(reset ?? 'none');
  if (!Number.isFinite(seconds) || seconds < 0) return undefined;
  return seconds >= EPOCH_SECONDS
    ? Math.max(0, Math.ceil(seconds * 1000 - now))
    : Math.ceil(seconds * 1000);
}
