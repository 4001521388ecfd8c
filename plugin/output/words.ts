/** `2026-11-21 09:01` out of RFC 3339 (UTC), with seconds where they are not 0. */
export function time(instant: string): string {
  const [, day = '', minute = '', second = ''] =
    /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):(\d\d)/.exec(instant) ?? [];
  if (day === '') return instant;
  return second === '00' ? `${day} ${minute}` : `${day} ${minute}:${second}`;
}

/** A length of time in its two largest units: `2d 3h`, `45s`. */
export function duration(seconds: number): string {
  const units = [
    ['d', 86_400],
    ['h', 3600],
    ['m', 60],
    ['s', 1],
  ] as const;
  const at = units.findIndex(([, size]) => seconds >= size);
  if (at < 0) return seconds > 0 ? '< 1s' : '0s';
  const parts: string[] = [];
  let left = Math.floor(seconds);
  for (const [unit, size] of units.slice(at, at + 2)) {
    const count = Math.floor(left / size);
    if (count > 0) parts.push(`${count}${unit}`);
    left -= count * size;
  }
  return parts.join(' ');
}

/** A quantity with at most three decimals; json, yaml, csv and wide have all of them. */
export function rounded(quantity: string): string {
  const value = Number(quantity);
  if (Number.isInteger(value)) return quantity;
  if (value !== 0 && Math.abs(value) < 0.0005) return value > 0 ? '< 0.001' : '> -0.001';
  return value.toFixed(3);
}
