/** Runs an action for every item, at most `limit` at a time, and resolves when all have ended. */
export async function mapConcurrently<T>(
  items: readonly T[],
  limit: number,
  action: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    for (let item = items[next++]; item !== undefined; item = items[next++]) await action(item);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, work));
}
