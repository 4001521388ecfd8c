import type { SpanAmounts } from '../meters/evidence-changes.ts';

/**
 * Encodes amounts as bytes, because there may be one for every pod and window. Each amount is two
 * signed variable-length integers of 7 bits a byte: the distance of its span number from the
 * previous one, and the nanos.
 */
export function encodeAmounts({ spans, nanos }: SpanAmounts): Buffer {
  const bytes = Buffer.allocUnsafe(spans.length * 2 * MAX_BYTES);
  let length = 0;
  const put = (value: number): void => {
    // Twice the amount, odd if negative. It exceeds 32 bits, so no bit operators.
    let remaining = value < 0 ? -value * 2 - 1 : value * 2;
    for (; remaining >= 128; remaining = Math.floor(remaining / 128))
      bytes[length++] = (remaining % 128) | 128;
    bytes[length++] = remaining;
  };
  let before = 0;
  for (const [index, span] of spans.entries()) {
    put(span - before);
    put(nanos[index] ?? 0);
    before = span;
  }
  return Buffer.from(bytes.subarray(0, length));
}

/** A double has exact integers of up to 53 bits. */
const MAX_BYTES = 8;

/** Decodes amounts and appends them to the lists. Throws if the bytes end early. */
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
