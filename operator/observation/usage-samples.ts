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
  /** Undefined where nothing was measured: unknown, not zero (design 6). */
  readonly sample: UsageSample | undefined;
}

/** Samples of pod usage by pod uid. */
export interface UsageSamples {
  add(uid: string, sample: UsageSample): void;
  /** The stretches of `[from, to)`, in order and without holes; a sample holds until the next, for `holdMs` at most. */
  stretches(uid: string, from: number, to: number, holdMs: number): readonly UsageStretch[];
  /** Forgets samples that cannot reach beyond `horizon`. */
  prune(horizon: number, holdMs: number): void;
  readonly size: number;
}

/** Bounds memory while a window cannot be closed; older samples then count as not taken. */
const MAX_SAMPLES_PER_POD = 256;

/**
 * Samples are taken twice a window, at most a minute apart (design 6). The design's lower bound of
 * 15 s holds for windows from 30 s on; shorter windows are sampled twice all the same, or a pod
 * could go a whole window without a sample.
 */
export function sampleIntervalMs(windowMs: number): number {
  return Math.min(windowMs / 2, 60_000);
}

/** A sample that found no successor stops holding after this long: two intervals (design 6). */
export function sampleHoldMs(windowMs: number): number {
  return 2 * sampleIntervalMs(windowMs);
}

export function createUsageSamples(): UsageSamples {
  const byPod = new Map<string, UsageSample[]>();
  return {
    get size() {
      return byPod.size;
    },
    add: (uid, sample) => {
      const samples = byPod.get(uid);
      if (samples === undefined) {
        byPod.set(uid, [sample]);
        return;
      }
      // A clock that was set back takes the samples of the time that comes again with it.
      while ((samples.at(-1)?.at ?? -Infinity) >= sample.at) samples.pop();
      samples.push(sample);
      if (samples.length > MAX_SAMPLES_PER_POD) samples.shift();
    },
    stretches: (uid, from, to, holdMs) => stretchesOf(byPod.get(uid) ?? [], from, to, holdMs),
    prune: (horizon, holdMs) => {
      for (const [uid, samples] of byPod) {
        const kept = samples.findIndex((sample) => sample.at + holdMs > horizon);
        if (kept === -1) byPod.delete(uid);
        if (kept > 0) samples.splice(0, kept);
      }
    },
  };
}

function stretchesOf(
  samples: readonly UsageSample[],
  from: number,
  to: number,
  holdMs: number,
): readonly UsageStretch[] {
  const stretches: UsageStretch[] = [];
  let reached = from;
  for (const [index, sample] of samples.entries()) {
    const begin = Math.max(sample.at, reached);
    const end = Math.min(samples[index + 1]?.at ?? Infinity, sample.at + holdMs, to);
    if (end <= begin) continue;
    if (begin > reached) stretches.push({ from: reached, to: begin, sample: undefined });
    stretches.push({ from: begin, to: end, sample });
    reached = end;
  }
  if (reached < to) stretches.push({ from: reached, to, sample: undefined });
  return stretches;
}
