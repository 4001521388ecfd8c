import type { Billed } from '../vendors/stand-in.ts';

/** A record of a topic, as a consumer reads it. */
export interface ReadRecord {
  readonly key: string;
  readonly value: string;
  readonly headers: Readonly<Record<string, string>>;
}

const USAGE = /^io\.meterfeed\.usage\./;

/**
 * What a consumer makes of the records of a topic that deduplicates by id as docs/how-to/destinations/kafka.md#what-can-come-twice
 * says. An id that comes again with other content, or for another tenant, is no repeat and is billed.
 */
export function billOf(records: Iterable<ReadRecord>): {
  readonly billed: readonly Billed[];
  readonly repeats: number;
} {
  const contents = new Map<string, string>();
  const billed: Billed[] = [];
  let repeats = 0;
  for (const { key, value, headers } of records) {
    const { ce_type: type = '', ce_id: id = '', ce_subject: tenant = '' } = headers;
    if (!USAGE.test(type)) continue;
    const content = key === tenant ? value : `of ${tenant}, at the key ${key}: ${value}`;
    if (contents.get(id) === content) {
      repeats += 1;
      continue;
    }
    contents.set(id, content);
    billed.push({ id, content });
  }
  return { billed, repeats };
}
