import type { RunPlan } from './attacks/attack.ts';
import { isSound, LONGEST_STALL_MS, type Totals } from './observer/evaluation.ts';
import { runSuite } from './suite.ts';

/** What became of a bug that was planted in the operator. */
export interface Planted {
  readonly planted: string;
  /** Whether it was counted where it belongs, and the suite would have failed. */
  readonly seen: boolean;
  readonly totals: Totals;
}

/** Every bug that can be planted, and where it must be counted. */
export const PLANTS: Readonly<Record<string, (totals: Totals) => boolean>> = {
  ended: ({ ended }) => ended > 0,
  memory: ({ ended }) => ended > 0,
  misbilled: ({ misbilled }) => misbilled > 0,
  unanswered: ({ starved }) => starved > 0,
  late: ({ starved }) => starved > 0,
  stall: ({ worst_stall_ms: stall }) => stall >= LONGEST_STALL_MS,
  leaked: ({ leaked }) => leaked > 0,
};

/** One run whose only attack is what the planted bug waits for. */
const TRIGGER: RunPlan = {
  run: 0,
  attacks: [{ kind: 'host', name: 'the trigger of a planted bug', seed: 0 }],
};

/** Bugs that do not get into each other's way share an operator. */
export const PLANTED_TOGETHER: readonly (readonly string[])[] = [
  ['leaked', 'misbilled', 'stall', 'unanswered'],
  ['ended'],
  ['memory'],
  ['late'],
];

/** Runs the suite on an operator with some bugs in it, and on the next with the next ones. */
export async function selfCheck(
  progress: (line: string) => void,
  plants: readonly (readonly string[])[] = PLANTED_TOGETHER,
): Promise<readonly Planted[]> {
  const results: Planted[] = [];
  for (const together of plants) {
    progress(`planting: ${together.join(', ')}`);
    const { totals, memoryLimitMiB } = await runSuite([TRIGGER], {
      jobs: 1,
      restartEvery: 100,
      plant: together.join(),
      failed: ({ kind, what }) => progress(`  ${kind}: ${what.slice(0, 160)}`),
      progress: () => undefined,
    });
    const isFailed = !isSound(totals, memoryLimitMiB);
    for (const planted of together) {
      results.push({ planted, seen: isFailed && PLANTS[planted]?.(totals) === true, totals });
    }
  }
  return results;
}
