import { constants, PerformanceObserver } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { isRecord } from '../model/is-record.ts';
import type { HeapTiming } from '../windows/heap-timing.ts';

/** MiB; the installation gives 588 of them (config/operator/stateful-set.yaml). */
const ROOMY_MIB = 640;

/** Percent of what a heap may grow by until it is collected: less than this is not worth a collection. */
const WORTH_IT = 5;

/**
 * How far the heap may outgrow what is in use before it is collected, by how large it may get (bytes). V8 would let
 * it grow threefold, and the collections cost little beside what watches bring; but one that falls into the close of a
 * window keeps it up for more than half a second on two cores. Where there is room the heap may double, so that what a
 * close needs fits in, and may be collected before a close: gives when. Flags of V8 that are looked up whenever they
 * matter, and may be set at any time.
 */
export function tuneHeap(
  limit: number,
  setFlag: (flag: string) => void = setFlagsFromString,
): HeapTiming | undefined {
  const isRoomy = limit > ROOMY_MIB * 2 ** 20;
  setFlag(`--heap-growing-percent=${isRoomy ? 100 : 40}`);
  // In this mode collections also move what is left together: pages of which two thirds are free would be kept
  // otherwise, and were a third of the heap.
  setFlag('--memory-saver-mode');
  if (!isRoomy) {
    // V8 would compile whatever has run 400 times to faster code, and once more after 3,000. In a process that lives for
    // months that is all of it, and memory would grow for days by code that each window needs a few times. What is worth
    // it runs more often than this within minutes.
    setFlag('--invocation-count-for-maglev=40000');
    setFlag('--invocation-count-for-turbofan=300000');
    return undefined;
  }
  // It also has V8 collect once more some seconds after a collection, and again, to give memory back, whatever goes on.
  setFlag('--memory-reducer-gc-count=0');
  let isEarly = false;
  // Marking begins in the background with it, and goes on in short steps; at 0 V8 decides by itself when.
  const begin = (percent: number): void => setFlag(`--incremental-marking-soft-trigger=${percent}`);
  const leave = (): void => {
    collections.disconnect();
    begin(0);
  };
  const collections = new PerformanceObserver((list) => {
    if (list.getEntries().some(isMajor)) leave();
  });
  return {
    collectEarly: (early) => {
      if (early === isEarly) return;
      isEarly = early;
      if (!early) return leave();
      collections.observe({ entryTypes: ['gc'] });
      begin(WORTH_IT);
    },
  };
}

/**
 * For a process that mostly passes on what it reads, as a hub does: the opposite of some of what is good for a meter, whose
 * objects stay. V8 makes objects among the old ones at once when most of their kind outlived a collection at some time, and never
 * takes that back: because of one page of events that was still being read, all later ones would wait for a collection of the
 * whole heap. And in its memory-saving mode it makes the space for new objects small again whenever it has collected all of
 * it, so that most of what is on its way becomes old, and collects the whole twice as often.
 */
export function tuneForReading(setFlag: (flag: string) => void = setFlagsFromString): void {
  setFlag('--no-allocation-site-pretenuring');
  setFlag('--no-memory-saver-mode');
}

/** Whether an entry of the type `gc` is of the whole heap. */
export function isMajor(entry: object): boolean {
  const detail = 'detail' in entry ? entry.detail : undefined;
  return isRecord(detail) && detail['kind'] === constants.NODE_PERFORMANCE_GC_MAJOR;
}
