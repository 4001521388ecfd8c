/** Returns a function that runs actions one after the other, whether they succeed or fail. */
export function createInOrder(): <T>(action: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (action) => {
    const running = last.then(action);
    last = running.catch(() => undefined);
    return running;
  };
}
