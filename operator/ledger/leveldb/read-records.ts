import { openValue, keySeed } from './checked-value.ts';
import { damage } from './failures.ts';
import type { StoredEvents } from './find-stored.ts';
import { KEY_SPACE, keysFrom, keyText, textKey } from './keys.ts';

const PAGE_RECORDS = 500;

/** One record; undefined when there is none. Throws a LedgerReadError when it is damaged. */
export async function readRecord(places: StoredEvents, key: string): Promise<string | undefined> {
  const stored = textKey(KEY_SPACE.record, key);
  const value = await places.active.get(stored);
  return value === undefined ? undefined : recordText(places.activeName, stored, value);
}

/** The records whose keys begin with `prefix`, in key order, a page at a time. */
export async function* readRecords(
  places: () => StoredEvents,
  prefix: string,
): AsyncGenerator<readonly [key: string, value: string], void, void> {
  const range = keysFrom(textKey(KEY_SPACE.record, prefix));
  for (let { gte } = range; ; ) {
    const { active, activeName } = places();
    const page = await active.iterator({ gte, lt: range.lt, limit: PAGE_RECORDS }).all();
    for (const [key, value] of page) yield [keyText(key), recordText(activeName, key, value)];
    const last = page.at(-1)?.[0];
    if (last === undefined || page.length < PAGE_RECORDS) return;
    gte = Buffer.concat([last, Buffer.of(0)]);
  }
}

function recordText(where: string, key: Buffer, value: Buffer): string {
  const body = openValue(keySeed(key), value);
  if (body === undefined) throw damage(where, `the record is damaged: "${keyText(key)}"`);
  return body.toString();
}
