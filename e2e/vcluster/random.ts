/** What a seed decides: the same seed gives the same choices. */
export interface Random {
  /** A whole number of the range, both ends included. */
  between(least: number, most: number): number;
}

export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return {
    between: (least, most) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return least + Math.floor((state / 2 ** 32) * (most - least + 1));
    },
  };
}
