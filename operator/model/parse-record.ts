import { parseJson } from './parse-json.ts';

/** Reads a JSON text of the operator's own; undefined where it is damaged. */
export function parseRecord<T>(
  text: string,
  isIntact: (value: unknown) => value is T,
): T | undefined {
  const value = parseJson(text);
  return isIntact(value) ? value : undefined;
}
