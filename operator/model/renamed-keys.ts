/**
 * Returns a copy of a stored object with the present names of its fields, in the same order. Fields
 * without a present name stay as they are.
 */
export function renamedKeys(stored: object, presentNames: ReadonlyMap<string, string>): unknown {
  return Object.fromEntries(
    Object.entries(stored).map(([key, value]) => [presentNames.get(key) ?? key, value]),
  );
}
