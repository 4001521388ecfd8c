import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { type UsageSample, UsageSamples, type UsageStretch } from './usage-samples.ts';

/** The expected behaviour: the samples of each pod in a list of its own, oldest first. */
class Lists {
  readonly #byPod = new Map<string, readonly UsageSample[]>();

  add(uid: string, sample: UsageSample): void {
    const earlier = (this.#byPod.get(uid) ?? []).filter(({ at }) => at < sample.at);
    this.#byPod.set(uid, [...earlier, sample]);
  }

  prune(horizon: number, holdMs: number): void {
    for (const [uid, samples] of this.#byPod) {
      const stored = samples.filter(({ at }) => at > horizon - holdMs);
      if (stored.length === 0) this.#byPod.delete(uid);
      else this.#byPod.set(uid, stored);
    }
  }

  get size(): number {
    return this.#byPod.size;
  }

  /** The sample at a moment. */
  at(uid: string, moment: number, holdMs: number): UsageSample | undefined {
    const last = this.#byPod.get(uid)?.findLast(({ at }) => at <= moment);
    return last !== undefined && moment < last.at + holdMs ? last : undefined;
  }
}

const FROM = 20;
const TO = 60;

/** Cuts stretches into their moments; undefined where they are not in order, or have holes. */
function momentsOf(stretches: readonly UsageStretch[]): (UsageSample | undefined)[] | undefined {
  let reached = FROM;
  const moments: (UsageSample | undefined)[] = [];
  for (const { from, to, sample } of stretches) {
    if (from !== reached || to <= from) return undefined;
    for (; reached < to; reached += 1) moments.push(sample);
  }
  return reached === TO ? moments : undefined;
}

test('a pod is never billed another one’s sample, nor one that was forgotten, whoever comes, goes and is read when', () => {
  const anyStep = fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        kind: fc.constant('add' as const),
        uid: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'),
        at: fc.integer({ min: 0, max: 70 }),
        cpu: fc.integer({ min: 0, max: 2 ** 48 }),
        memory: fc.integer({ min: 0, max: 2 ** 48 }),
      }),
    },
    fc.record({ kind: fc.constant('prune' as const), horizon: fc.integer({ min: 0, max: 80 }) }),
  );
  fc.assert(
    fc.property(
      fc.array(anyStep, { maxLength: 60 }),
      fc.integer({ min: 1, max: 30 }),
      (steps, hold) => {
        const samples = new UsageSamples();
        const lists = new Lists();
        for (const step of steps) {
          if (step.kind === 'prune') {
            samples.prune(step.horizon, hold);
            lists.prune(step.horizon, hold);
          } else {
            const { uid, at, cpu, memory } = step;
            samples.add(uid, { at, cpu, memory });
            lists.add(uid, { at, cpu, memory });
          }
          expect(samples.size).toBe(lists.size);
        }
        for (const uid of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'nobody']) {
          const expected = Array.from({ length: TO - FROM }, (_, index) =>
            lists.at(uid, FROM + index, hold),
          );
          expect(momentsOf(samples.stretches(uid, FROM, TO, hold))).toEqual(expected);
        }
      },
    ),
    { numRuns: 500 },
  );
});

test('windows that cannot be closed for hours do not fill the memory with samples', () => {
  const samples = new UsageSamples();
  for (let at = 1; at <= 1_000; at += 1) {
    samples.add('stays', { at, cpu: at, memory: 1 });
    if (at <= 10) samples.add('went', { at, cpu: 1, memory: 1 });
  }
  expect(samples.size).toBe(1);
  expect(samples.stretches('went', 0, 1_000, 1_000)).toEqual([
    { from: 0, to: 1_000, sample: undefined },
  ]);
  const known = samples
    .stretches('stays', 0, 1_001, 1)
    .filter(({ sample }) => sample !== undefined);
  expect(known).toHaveLength(256);
  expect(known.at(-1)?.sample?.cpu).toBe(1_000);
});

test('windows that cannot be closed for an hour fill the memory with samples of very many pods', () => {
  const samples = new UsageSamples();
  for (let pod = 0; pod < 100_000; pod += 1) {
    samples.add(`pod-${pod}`, { at: 0, cpu: 1, memory: 1 });
  }
  // Each reading has room for all pods, 1.6 MB: 83 of them are 128 MiB.
  for (let at = 1; at < 120; at += 1) samples.add('pod-0', { at, cpu: 1, memory: 1 });
  const known = samples.stretches('pod-0', 0, 120, 1).filter(({ sample }) => sample !== undefined);
  expect(known).toHaveLength(83);
  expect(samples.droppedUntil).toBe(36);
});
