/**
 * The same text in one piece. V8 keeps one that was put together as the tree of its parts, and goes through all of them whenever it becomes a part of
 * another. What is well-formed stays as it is.
 */
export function flatText(text: string): string {
  return Buffer.from(text).toString();
}
