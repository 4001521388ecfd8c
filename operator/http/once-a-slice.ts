/**
 * Makes something for whoever asks, once for all that ask in one turn of the event loop: a hundred requests
 * that arrive together cost one answer, and hold nobody up for the time of a hundred.
 */
export function onceASlice<T>(make: () => Promise<T>): () => Promise<T> {
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
