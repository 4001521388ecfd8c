import { recordAt, textAt } from '../kubernetes/raw-fields.ts';
import type { RawObject } from '../kubernetes/source.ts';

/** The text entries of a label or annotation map that `wanted` accepts. */
export function textsAt(
  parent: RawObject,
  key: string,
  wanted: (key: string, value: string) => boolean = () => true,
): Readonly<Record<string, string>> {
  const entries = Object.entries(recordAt(parent, key));
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => {
      return typeof entry[1] === 'string' && wanted(entry[0], entry[1]);
    }),
  );
}

/** An RFC 3339 time in milliseconds since the epoch; 0 if there is none. */
export function timeAt(parent: RawObject, key: string): number {
  const parsed = Date.parse(textAt(parent, key) ?? '');
  return Number.isNaN(parsed) ? 0 : parsed;
}
