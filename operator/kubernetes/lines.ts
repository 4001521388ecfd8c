/** An object is at most a few MiB; a longer line means that this is not a watch stream. */
const MAX_LINE_LENGTH = 32 * 1024 * 1024;

/**
 * Cuts a stream of bytes into its lines. Text after the last newline is dropped: it is half of an
 * event whose connection was cut, and the event comes again when the watch resumes.
 * Throws what the stream throws.
 */
export async function* readLines(
  chunks: AsyncIterable<Uint8Array>,
  mostLength: number = MAX_LINE_LENGTH,
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let pending = '';
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true });
    let start = 0;
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      const line = pending + text.slice(start, end);
      pending = '';
      start = end + 1;
      if (line !== '') yield line;
    }
    pending += text.slice(start);
    if (pending.length > mostLength) throw new Error('stream: a line is too long');
  }
}
