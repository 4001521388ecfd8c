import { invalid } from './answers.ts';

const MAX_KEYS = 50;
const MAX_KEY = 40;
const MAX_VALUE = 500;

/** Returns the refusal of metadata beyond its limits. */
export function metadataProblem(metadata: Readonly<Record<string, string>>) {
  const entries = Object.entries(metadata);
  if (entries.length > MAX_KEYS) return invalid('Metadata may have at most 50 keys', 'metadata');
  for (const [key, value] of entries) {
    if (key.length > MAX_KEY) return invalid(`Metadata key too long: ${key}`);
    if (value.length > MAX_VALUE) return invalid(`Metadata value too long: ${key}`);
  }
  return undefined;
}

/** Merges metadata; an empty value removes the key. */
export function mergeMetadata(
  before: Readonly<Record<string, string>>,
  change: Readonly<Record<string, string>>,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries({ ...before, ...change }).filter(([, value]) => value !== ''),
  );
}
