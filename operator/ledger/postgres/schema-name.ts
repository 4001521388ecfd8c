import { hash } from 'node:crypto';

/** The schema and role of a hub; no stream has this name. */
export const HUB_SCHEMA = 'meterfeed_hub';

export const SCHEMA_PREFIX = 'meterfeed_';
/** Names that become readable schemas, except `hub` and `v1`, which have another meaning. */
const PLAIN = /^(?!hub$|v\d+$)[a-z0-9]+(?:-[a-z0-9]+)*$/;
const PLAIN_CHARACTERS = 50;
const READABLE_CHARACTERS = 24;
const HEX_DIGITS = 24;

/**
 * The schema of a stream, at most 63 bytes of `a-z`, `0-9` and `_`
 * (docs/reference/ledger-format.md#the-schema-of-a-stream). No two streams share one: in a plain
 * CLUSTER_NAME `-` becomes `_`; any other name gets `__` and 96 bits of its hash, which no plain
 * name has.
 */
export function schemaOf(source: string): string {
  if (PLAIN.test(source) && source.length <= PLAIN_CHARACTERS) {
    return SCHEMA_PREFIX + source.replaceAll('-', '_');
  }
  const words = source.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  const readable = words.join('_').slice(0, READABLE_CHARACTERS);
  return `${SCHEMA_PREFIX}${readable}__${hash('sha256', source).slice(0, HEX_DIGITS)}`;
}
