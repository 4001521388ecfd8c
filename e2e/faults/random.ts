import { seededRandom } from '../../operator/ledger/testing/seeded-random.ts';

/** Choices that repeat for the same seed. */
export interface Random {
  /** In [0, 1). */
  fraction(): number;
  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number;
  chance(probability: number): boolean;
  pick<T>(choices: readonly [T, ...T[]] | readonly T[]): T;
  /** A seed for something that makes choices of its own. */
  seed(): number;
}

export function createRandom(seed: number): Random {
  const fraction = seededRandom(seed);
  const between = (low: number, high: number): number =>
    low + Math.floor(fraction() * (high - low + 1));
  return {
    fraction,
    between,
    chance: (probability) => fraction() < probability,
    pick: (choices) => {
      const choice = choices[between(0, choices.length - 1)];
      if (choice === undefined) throw new RangeError('pick: nothing to choose from');
      return choice;
    },
    seed: () => between(0, 0xffffffff),
  };
}
