/**
 * Sequence numbers that the cursor has passed although the destination was never given the event: what
 * lay before the start, what an operator skipped, and discarded dead letters. `[first, last]` each,
 * ascending, without overlaps.
 */
export type Withheld = readonly (readonly [first: number, last: number])[];

export function withhold(withheld: Withheld, first: number, last: number): Withheld {
  if (first > last) return withheld;
  const merged: [number, number][] = [];
  for (const [from, to] of [...withheld, [first, last] as const].toSorted((a, b) => a[0] - b[0])) {
    const before = merged.at(-1);
    if (before === undefined || from > before[1] + 1) merged.push([from, to]);
    else before[1] = Math.max(before[1], to);
  }
  return merged;
}

/** Without everything above a sequence number: a cursor that was put back there passes it once more. */
export function withheldUpTo(withheld: Withheld, last: number): Withheld {
  return withheld.flatMap(([from, to]) =>
    from > last ? [] : [[from, Math.min(to, last)] as const],
  );
}

/** Without what the ledger has deleted; `lowWater` is the number before the oldest event. */
export function withheldAfter(withheld: Withheld, lowWater: number): Withheld {
  return withheld.filter(([, to]) => to > lowWater);
}

export function isWithheld(withheld: Withheld, sequence: number): boolean {
  return withheld.some(([from, to]) => from <= sequence && sequence <= to);
}
