/** The characters of a text as terminals count them, so that none is cut in half. */
export function characters(text: string): readonly string[] {
  return Array.from(text);
}
