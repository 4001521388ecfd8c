/** Many readers at a time, or one writer. A waiting writer goes before later readers. */
export interface ReadWriteLock {
  read<T>(action: () => Promise<T>): Promise<T>;
  write<T>(action: () => Promise<T>): Promise<T>;
}

export function createReadWriteLock(): ReadWriteLock {
  let readers: Promise<unknown> = Promise.resolve();
  let writer: Promise<unknown> = Promise.resolve();
  return {
    read: (action) => {
      const result = writer.then(action);
      readers = Promise.allSettled([readers, result]);
      return result;
    },
    write: (action) => {
      const result = Promise.all([readers, writer]).then(action);
      writer = result.catch(() => undefined);
      return result;
    },
  };
}
