import type { SpanAmounts } from '../meters/evidence-changes.ts';

/**
 * Amounts as bytes: there may be one for every pod and window. Each is the distance of its span's
 * number from the one before and the nanos, both as signed variable-length integers of 7 bits a byte.
 */
export function encodeAmounts({ spans, nanos }: SpanAmounts): Buffer {
  const bytes = Buffer.allocUnsafe(spans.length * 2 * MAX_BYTES);
  let length = 0;
  const put = (value: number): void => {
    // Twice the amount, odd below zero. Too large for 32 bits, so in arithmetic.
    let rest = value < 0 ? -value * 2 - 1 : value * 2;
    for (; rest >= 128; rest = Math.floor(rest / 128)) bytes[length++] = (rest % 128) | 128;
    bytes[length++] = rest;
  };
  let before = 0;
  for (const [index, span] of spans.entries()) {
    put(span - before);
    put(nanos[index] ?? 0);
    before = span;
  }
  return Buffer.from(bytes.subarray(0, length));
}

/** A double holds no whole number of more than 53 bits. */
const MAX_BYTES = 8;

/** Adds to what was read before. Throws where the bytes end early. */
export function decodeAmounts(
  bytes: Buffer,
  { spans, nanos }: { readonly spans: number[]; readonly nanos: number[] },
): void {
  let at = 0;
  const take = (): number => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error('amounts end early');
      value += (byte & 127) * factor;
      if (byte < 128) break;
    }
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  };
  let span = 0;
  while (at < bytes.length) {
    span += take();
    spans.push(span);
    nanos.push(take());
  }
}
