/** The first and last sequence number of consecutive events. */
export interface EventRange {
  readonly firstSequence: number;
  /** `firstSequence - 1` if there are none. */
  readonly lastSequence: number;
}

/** Returns a text for each range of missing numbers between ascending ranges. */
export function missingRanges(ranges: readonly EventRange[]): readonly string[] {
  return ranges.flatMap(({ firstSequence }, index) => {
    const before = ranges[index - 1]?.lastSequence;
    if (before === undefined || before + 1 === firstSequence) return [];
    return [`ledger: events ${before + 1} to ${firstSequence - 1}: missing`];
  });
}
