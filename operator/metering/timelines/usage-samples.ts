/** What the metrics API said a pod used, at one moment. */
export interface UsageSample {
  readonly at: number;
  /** Nanocores, averaged by the metrics server over its own interval. */
  readonly cpu: number;
  /** Bytes of working set. */
  readonly memory: number;
}

/** The measured usage of a pod during `[from, to)`. */
export interface UsageStretch {
  readonly from: number;
  readonly to: number;
  /** Undefined where nothing was measured: unknown, not zero (docs/explanation/gaps.md#unknown-is-not-zero). */
  readonly sample: UsageSample | undefined;
}

/** Bounds memory while a window cannot be closed; older samples then count as not taken. Two hours with windows of a minute. */
const MAX_READINGS = 256;
/** The same for a cluster of many pods: 128 MiB are 80 readings of 100,000 pods. */
const MAX_BYTES = 128 * 1024 * 1024;
/** Of a column, when it is too short. */
const GROWTH = 1.25;

/**
 * Samples are taken twice a window, at most a minute apart (docs/explanation/metering.md#cpu-and-memory), however
 * short the window is, or a pod could go a whole window without a sample.
 */
export function sampleIntervalMs(windowMs: number): number {
  return Math.min(windowMs / 2, 60_000);
}

/** A sample that found no successor stops holding after this long: two intervals. */
export function sampleValidMs(windowMs: number): number {
  return 2 * sampleIntervalMs(windowMs);
}

/** Of each pod that was read at one moment its nanocores and its bytes, at its place; NaN where it was not read. */
interface Reading {
  readonly at: number;
  amounts: Float64Array;
}

const AMOUNTS = 2;

/**
 * Samples of pod usage by pod uid. All that was read at one moment is in one column: every pod of the cluster has samples,
 * and they come and go together.
 */
export class UsageSamples {
  /** Where in a column a pod's amounts are. */
  readonly #places = new Map<string, number>();
  /** Places that nobody has any more. */
  #free: number[] = [];
  /** Oldest first. */
  #readings: readonly Reading[] = [];
  #droppedUntil = -Infinity;
  #sampledFrom = Infinity;

  /** Since when this process samples; samples of a process before it are lost. Infinity before the first time. */
  get sampledFrom(): number {
    return this.#sampledFrom;
  }

  /** Samples are read at this moment, whether or not that succeeds. */
  begin(at: number): void {
    this.#sampledFrom = Math.min(this.#sampledFrom, at);
  }

  /** The newest moment of which samples were dropped for want of room; -Infinity where none were. */
  get droppedUntil(): number {
    return this.#droppedUntil;
  }

  get size(): number {
    return this.#places.size;
  }

  add(uid: string, { at, cpu, memory }: UsageSample): void {
    const reading = this.#readingAt(at);
    const place = this.#placeOf(uid);
    put(reading, place, cpu, memory);
    // A clock that was set back takes the samples of the time that comes again with it.
    for (const later of this.#readings) if (later.at > at) take(later, place);
  }

  /**
   * The stretches of `[from, to)`, in order and without holes; a sample holds until the next, for
   * `holdMs` at most.
   */
  stretches(uid: string, from: number, to: number, holdMs: number): readonly UsageStretch[] {
    const place = this.#places.get(uid);
    const stretches: UsageStretch[] = [];
    let reached = from;
    const hold = (sample: UsageSample, until: number): void => {
      const begin = Math.max(sample.at, reached);
      const end = Math.min(until, sample.at + holdMs, to);
      if (end <= begin) return;
      if (begin > reached) stretches.push({ from: reached, to: begin, sample: undefined });
      stretches.push({ from: begin, to: end, sample });
      reached = end;
    };
    let before: UsageSample | undefined;
    for (const reading of this.#readings) {
      // What has not begun, or holds no more, makes no difference; every pod would pay for looking at it.
      if (reading.at >= to) break;
      if (reading.at + holdMs <= from) continue;
      const sample = place === undefined ? undefined : sampleAt(reading, place);
      if (sample === undefined) continue;
      if (before !== undefined) hold(before, sample.at);
      before = sample;
    }
    if (before !== undefined) hold(before, Infinity);
    if (reached < to) stretches.push({ from: reached, to, sample: undefined });
    return stretches;
  }

  /** Forgets samples that cannot reach beyond `horizon`. */
  prune(horizon: number, holdMs: number): void {
    this.#keep(this.#readings.filter(({ at }) => at > horizon - holdMs));
  }

  #placeOf(uid: string): number {
    const known = this.#places.get(uid);
    if (known !== undefined) return known;
    const place = this.#free.pop() ?? this.#places.size;
    this.#places.set(uid, place);
    return place;
  }

  #readingAt(at: number): Reading {
    const newest = this.#readings.at(-1);
    const known = newest?.at === at ? newest : this.#readings.find((reading) => reading.at === at);
    if (known !== undefined) return known;
    const reading = { at, amounts: emptyColumn(this.#places.size + this.#free.length) };
    this.#makeRoom(reading.amounts.byteLength);
    this.#readings = [...this.#readings, reading].toSorted((a, b) => a.at - b.at);
    return reading;
  }

  /** Drops the oldest readings where there are too many, or they take too much together with `bytes` more. */
  #makeRoom(bytes: number): void {
    let left = this.#readings;
    const taken = (): number => left.reduce((sum, { amounts }) => sum + amounts.byteLength, bytes);
    while (left.length >= MAX_READINGS || (left.length > 0 && taken() > MAX_BYTES)) {
      this.#droppedUntil = Math.max(this.#droppedUntil, left[0]?.at ?? -Infinity);
      left = left.slice(1);
    }
    if (left.length === this.#readings.length) return;
    this.#keep(left);
  }

  /** Pods that are in none of these are forgotten. */
  #keep(readings: readonly Reading[]): void {
    if (readings.length === this.#readings.length) return;
    this.#readings = readings;
    // Most are in the newest.
    const newestFirst = readings.toReversed();
    for (const [uid, place] of this.#places) {
      if (newestFirst.some((reading) => isTaken(reading, place))) continue;
      this.#places.delete(uid);
      this.#free.push(place);
    }
    if (this.#places.size === 0) this.#free = [];
  }
}

function emptyColumn(places: number): Float64Array {
  return new Float64Array(places * AMOUNTS).fill(Number.NaN);
}

function isTaken({ amounts }: Reading, place: number): boolean {
  const cpu = amounts[place * AMOUNTS];
  return cpu !== undefined && !Number.isNaN(cpu);
}

function sampleAt({ at, amounts }: Reading, place: number): UsageSample | undefined {
  const index = place * AMOUNTS;
  const [cpu, memory] = [amounts[index], amounts[index + 1]];
  return cpu === undefined || memory === undefined || Number.isNaN(cpu)
    ? undefined
    : { at, cpu, memory };
}

function put(reading: Reading, place: number, cpu: number, memory: number): void {
  const index = place * AMOUNTS;
  if (index >= reading.amounts.length) {
    const longer = emptyColumn(Math.ceil((place + 1) * GROWTH));
    longer.set(reading.amounts);
    reading.amounts = longer;
  }
  reading.amounts[index] = cpu;
  reading.amounts[index + 1] = memory;
}

function take({ amounts }: Reading, place: number): void {
  if (place * AMOUNTS < amounts.length)
    amounts.fill(Number.NaN, place * AMOUNTS, (place + 1) * AMOUNTS);
}
