/** So many things at once, the others in the order of their arrival. */
export interface Slots {
  run<T>(task: () => Promise<T>): Promise<T>;
}

export function createSlots(most: number): Slots {
  const waiting: (() => void)[] = [];
  let busy = 0;
  return {
    run: async (task) => {
      if (busy >= most) await new Promise<void>((resolve) => waiting.push(resolve));
      else busy += 1;
      try {
        return await task();
      } finally {
        const next = waiting.shift();
        // A slot that is handed on stays busy.
        if (next === undefined) busy -= 1;
        else next();
      }
    },
  };
}
