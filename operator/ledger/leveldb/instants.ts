/** Two windows' worth of times is all that a batch has. */
const known = new Map<string, number>();
const MAX_KNOWN = 64;

/** Milliseconds since the epoch of an RFC 3339 time; remembered, because a window's events share theirs. */
export function parseInstant(text: string): number {
  const found = known.get(text);
  if (found !== undefined) return found;
  if (known.size >= MAX_KNOWN) known.clear();
  const time = Date.parse(text);
  known.set(text, time);
  return time;
}
