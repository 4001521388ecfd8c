/**
 * Deals items out to at most `count` lines that are served side by side, to the shortest first. All
 * items of one key stay in one line and in their order, so that a tenant's events do not overtake each
 * other.
 */
export function dealLines<T>(
  items: readonly T[],
  keyOf: (item: T) => string,
  count: number,
): readonly (readonly T[])[] {
  const lines: T[][] = Array.from({ length: Math.max(1, count) }, () => []);
  for (const group of Map.groupBy(items, keyOf).values()) {
    const shortest = lines.reduce((a, b) => (b.length < a.length ? b : a));
    shortest.push(...group);
  }
  return lines.filter((line) => line.length > 0);
}
