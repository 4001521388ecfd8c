/** Where it can be chosen when the heap is collected. */
export interface HeapTiming {
  /** Whether it is to be collected soon, unless that was done a moment ago; else only once it has to be. */
  collectEarly(early: boolean): void;
}
