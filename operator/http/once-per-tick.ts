/**
 * Makes a value once for all calls in one tick of the event loop. A hundred requests that arrive
 * together cost one answer, and none of them waits for a hundred.
 */
export function oncePerTick<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    if (made === undefined) {
      made = make();
      setImmediate(() => {
        made = undefined;
      });
    }
    return made;
  };
}
