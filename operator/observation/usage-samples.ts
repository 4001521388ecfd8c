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
  /** Undefined where nothing was measured: unknown, not zero (docs/metering.md#unknown-is-not-zero). */
  readonly sample: UsageSample | undefined;
}

/** Samples of pod usage by pod uid. */
export interface UsageSamples {
  add(uid: string, sample: UsageSample): void;
  /**
   * The stretches of `[from, to)`, in order and without holes; a sample holds until the next, for
   * `holdMs` at most.
   */
  stretches(uid: string, from: number, to: number, holdMs: number): readonly UsageStretch[];
  /** Forgets samples that cannot reach beyond `horizon`. */
  prune(horizon: number, holdMs: number): void;
  readonly size: number;
}

/** Bounds memory while a window cannot be closed; older samples then count as not taken. */
const MAX_SAMPLES_PER_POD = 256;

/**
 * Samples are taken twice a window, at most a minute apart (docs/metering.md#cpu-and-memory), however
 * short the window is, or a pod could go a whole window without a sample.
 */
export function sampleIntervalMs(windowMs: number): number {
  return Math.min(windowMs / 2, 60_000);
}

/** A sample that found no successor stops holding after this long: two intervals. */
export function sampleHoldMs(windowMs: number): number {
  return 2 * sampleIntervalMs(windowMs);
}

/**
 * The samples of one pod, oldest first, three numbers each: moment, nanocores, bytes. Flat and of
 * exact length, since every pod of the cluster has such a list.
 */
type Readings = readonly number[];

const NUMBERS = 3;

export function createUsageSamples(): UsageSamples {
  const byPod = new Map<string, Readings>();
  return {
    get size() {
      return byPod.size;
    },
    add: (uid, { at, cpu, memory }) => {
      byPod.set(uid, [...earlier(byPod.get(uid) ?? [], at), at, cpu, memory]);
    },
    stretches: (uid, from, to, holdMs) => stretchesOf(byPod.get(uid) ?? [], from, to, holdMs),
    prune: (horizon, holdMs) => {
      for (const [uid, readings] of byPod) {
        const kept = firstAfter(readings, horizon - holdMs);
        if (kept >= readings.length) byPod.delete(uid);
        else if (kept > 0) byPod.set(uid, readings.slice(kept));
      }
    },
  };
}

/** A clock that was set back takes the samples of the time that comes again with it. */
function earlier(readings: Readings, at: number): Readings {
  const end = firstAfter(readings, at - 1);
  const start = Math.max(0, end - (MAX_SAMPLES_PER_POD - 1) * NUMBERS);
  return start === 0 && end === readings.length ? readings : readings.slice(start, end);
}

/** Where the first sample later than `moment` begins; the length when there is none. */
function firstAfter(readings: Readings, moment: number): number {
  for (let index = 0; index < readings.length; index += NUMBERS) {
    if ((readings[index] ?? 0) > moment) return index;
  }
  return readings.length;
}

function stretchesOf(
  readings: Readings,
  from: number,
  to: number,
  holdMs: number,
): readonly UsageStretch[] {
  const stretches: UsageStretch[] = [];
  let reached = from;
  for (let index = 0; index < readings.length; index += NUMBERS) {
    const at = readings[index] ?? 0;
    const begin = Math.max(at, reached);
    const end = Math.min(readings[index + NUMBERS] ?? Infinity, at + holdMs, to);
    if (end <= begin) continue;
    if (begin > reached) stretches.push({ from: reached, to: begin, sample: undefined });
    const [cpu = 0, memory = 0] = [readings[index + 1], readings[index + 2]];
    stretches.push({ from: begin, to: end, sample: { at, cpu, memory } });
    reached = end;
  }
  if (reached < to) stretches.push({ from: reached, to, sample: undefined });
  return stretches;
}
