const SECONDS = /^\d{1,9}$/;

/**
 * How long a Retry-After header asks to wait, in milliseconds from `now`; undefined when there is
 * none or it cannot be read. Both forms count: seconds and an HTTP date.
 */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  const text = header?.trim() ?? '';
  if (SECONDS.test(text)) return Number(text) * 1000;
  const at = text === '' ? Number.NaN : Date.parse(text);
  return Number.isFinite(at) ? Math.max(0, at - now) : undefined;
}
