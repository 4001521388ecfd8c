/** Reads a JSON text of the operator's own; undefined where it is damaged. */
export function parseRecord<T>(
  text: string,
  isIntact: (value: unknown) => value is T,
): T | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isIntact(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
