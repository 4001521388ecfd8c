/** Windows of all streams, each of which has its newest first; none is read before it is wanted. */
export function* newestFirst<W extends { readonly end: number }>(
  streams: readonly IteratorObject<W>[],
): Generator<W, undefined> {
  const heads = new Map<IteratorObject<W>, W>();
  const advance = (stream: IteratorObject<W>): void => {
    const next = stream.next();
    if (next.done === true) heads.delete(stream);
    else heads.set(stream, next.value);
  };
  for (const stream of streams) advance(stream);
  while (heads.size > 0) {
    const [first, window] = [...heads].reduce((a, b) => (b[1].end > a[1].end ? b : a));
    yield window;
    advance(first);
  }
}
