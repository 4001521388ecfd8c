/** The first and the last number of events that follow each other without a hole. */
export interface SequenceRange {
  readonly firstSequence: number;
  /** `firstSequence - 1` where there are none. */
  readonly lastSequence: number;
}

/** Numbers that were given and are not stored between ascending ranges, in words. */
export function missingRanges(ranges: readonly SequenceRange[]): readonly string[] {
  return ranges.flatMap(({ firstSequence }, index) => {
    const before = ranges[index - 1]?.lastSequence;
    if (before === undefined || before + 1 === firstSequence) return [];
    return [`ledger: events ${before + 1} to ${firstSequence - 1}: missing`];
  });
}
