/** A pod's usage by the metrics API at one moment. */
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
  /** Undefined if not measured: unknown, not 0 (docs/explanation/gaps.md#unknown-is-not-zero). */
  readonly sample: UsageSample | undefined;
}

/**
 * Limits memory while a window cannot be closed; older samples then count as not taken. Two hours
 * with windows of a minute.
 */
const MAX_READINGS = 256;
/** The same limit for many pods: 128 MiB are 80 readings of 100,000 pods. */
const MAX_BYTES = 128 * 1024 * 1024;
/** Growth factor of a column that is too short. */
const GROWTH = 1.25;

/**
 * Returns the interval of samples: twice a window, and at least once a minute
 * (docs/explanation/metering.md#cpu-and-memory). Otherwise a pod could have no sample in a window.
 */
export function sampleIntervalMs(windowMs: number): number {
  return Math.min(windowMs / 2, 60_000);
}

/** Returns how long a sample without a successor counts: two intervals. */
export function sampleValidMs(windowMs: number): number {
  return 2 * sampleIntervalMs(windowMs);
}

/** All pods' usage at one moment: nanocores and bytes by the pod's place, NaN if not read. */
interface UsageReading {
  readonly at: number;
  amounts: Float64Array;
}

const AMOUNTS = 2;

/** Samples of pod usage by uid. Each moment is a column: all pods' samples come and go together. */
export class UsageSamples {
  /** Each pod's place in the columns. */
  readonly #places = new Map<string, number>();
  /** Places that no pod uses. */
  #free: number[] = [];
  /** Oldest first. */
  #readings: readonly UsageReading[] = [];
  #droppedUntil = -Infinity;
  #sampledFrom = Infinity;

  /** Since when this process samples, as earlier samples are lost. Infinity before the first. */
  get sampledFrom(): number {
    return this.#sampledFrom;
  }

  /** Notes that samples are read at this moment, successfully or not. */
  begin(at: number): void {
    this.#sampledFrom = Math.min(this.#sampledFrom, at);
  }

  /** The newest moment whose samples were dropped for lack of memory; -Infinity without any. */
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
    // If the clock was set back, samples of the repeated time are replaced.
    for (const later of this.#readings) if (later.at > at) take(later, place);
  }

  /**
   * Returns the stretches of `[from, to)`, in order and without holes. A sample counts until the
   * next one, for `holdMs` at most.
   */
  stretches(uid: string, from: number, to: number, validMs: number): readonly UsageStretch[] {
    const place = this.#places.get(uid);
    const stretches: UsageStretch[] = [];
    let reached = from;
    const addStretch = (sample: UsageSample, until: number): void => {
      const begin = Math.max(sample.at, reached);
      const end = Math.min(until, sample.at + validMs, to);
      if (end <= begin) return;
      if (begin > reached) stretches.push({ from: reached, to: begin, sample: undefined });
      stretches.push({ from: begin, to: end, sample });
      reached = end;
    };
    let before: UsageSample | undefined;
    for (const reading of this.#readings) {
      // Skip samples outside the range before the look-up: it would cost time for every pod.
      if (reading.at >= to) break;
      if (reading.at + validMs <= from) continue;
      const sample = place === undefined ? undefined : sampleAt(reading, place);
      if (sample === undefined) continue;
      if (before !== undefined) addStretch(before, sample.at);
      before = sample;
    }
    if (before !== undefined) addStretch(before, Infinity);
    if (reached < to) stretches.push({ from: reached, to, sample: undefined });
    return stretches;
  }

  /** Forgets samples that cannot reach beyond `horizon`. */
  prune(horizon: number, validMs: number): void {
    this.#replaceReadings(this.#readings.filter(({ at }) => at > horizon - validMs));
  }

  #placeOf(uid: string): number {
    const known = this.#places.get(uid);
    if (known !== undefined) return known;
    const place = this.#free.pop() ?? this.#places.size;
    this.#places.set(uid, place);
    return place;
  }

  #readingAt(at: number): UsageReading {
    const newest = this.#readings.at(-1);
    const known = newest?.at === at ? newest : this.#readings.find((reading) => reading.at === at);
    if (known !== undefined) return known;
    const reading = { at, amounts: emptyColumn(this.#places.size + this.#free.length) };
    this.#makeRoom(reading.amounts.byteLength);
    this.#readings = [...this.#readings, reading].toSorted((a, b) => a.at - b.at);
    return reading;
  }

  /** Drops the oldest readings while they are too many, or too large together with `bytes` more. */
  #makeRoom(bytes: number): void {
    let left = this.#readings;
    const taken = (): number => left.reduce((sum, { amounts }) => sum + amounts.byteLength, bytes);
    while (left.length >= MAX_READINGS || (left.length > 0 && taken() > MAX_BYTES)) {
      this.#droppedUntil = Math.max(this.#droppedUntil, left[0]?.at ?? -Infinity);
      left = left.slice(1);
    }
    if (left.length === this.#readings.length) return;
    this.#replaceReadings(left);
  }

  /** Sets the readings, and forgets pods that are in none of them. */
  #replaceReadings(readings: readonly UsageReading[]): void {
    if (readings.length === this.#readings.length) return;
    this.#readings = readings;
    // Most pods are in the newest reading.
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

function isTaken({ amounts }: UsageReading, place: number): boolean {
  const cpu = amounts[place * AMOUNTS];
  return cpu !== undefined && !Number.isNaN(cpu);
}

function sampleAt({ at, amounts }: UsageReading, place: number): UsageSample | undefined {
  const index = place * AMOUNTS;
  const [cpu, memory] = [amounts[index], amounts[index + 1]];
  return cpu === undefined || memory === undefined || Number.isNaN(cpu)
    ? undefined
    : { at, cpu, memory };
}

function put(reading: UsageReading, place: number, cpu: number, memory: number): void {
  const index = place * AMOUNTS;
  if (index >= reading.amounts.length) {
    const longer = emptyColumn(Math.ceil((place + 1) * GROWTH));
    longer.set(reading.amounts);
    reading.amounts = longer;
  }
  reading.amounts[index] = cpu;
  reading.amounts[index + 1] = memory;
}

function take({ amounts }: UsageReading, place: number): void {
  if (place * AMOUNTS < amounts.length)
    amounts.fill(Number.NaN, place * AMOUNTS, (place + 1) * AMOUNTS);
}
