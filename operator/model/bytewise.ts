/** Compares texts by their UTF-8 bytes. This differs from code unit order beyond the BMP. */
export function compareBytewise(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) {
    if (a.charCodeAt(index) === b.charCodeAt(index)) continue;
    return (a.codePointAt(index) ?? 0) - (b.codePointAt(index) ?? 0);
  }
  return a.length - b.length;
}

/** The entries of a record with keys in bytewise order (docs/reference/events.md#ids). */
export function sortedEntries<T>(record: Readonly<Record<string, T>>): [key: string, value: T][] {
  const entries = Object.entries(record);
  const inOrder = entries.every(
    ([key], index) => index === 0 || compareBytewise(entries[index - 1]?.[0] ?? '', key) < 0,
  );
  return inOrder ? entries : entries.toSorted(([a], [b]) => compareBytewise(a, b));
}
