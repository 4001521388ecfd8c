import { walkEntries } from '../leveldb/entries.ts';
import { readHead } from '../leveldb/head-file.ts';
import { readIdentity } from '../leveldb/identity-file.ts';
import { KEY_SPACE, keysOf } from '../leveldb/keys.ts';
import { inspectSegments, openInspection } from './inspection.ts';

/** One line of JSON per segment, oldest first; the last one is active. */
export async function* describeSegments(directory: string): AsyncGenerator<string, void, void> {
  for await (const { name, state } of inspectSegments(directory)) {
    const { firstSequence, lastSequence, openedAt, bytes, starts, ends, chain } = state.segment;
    yield JSON.stringify({
      name,
      firstSequence,
      lastSequence,
      events: lastSequence - firstSequence + 1,
      openedAt: instant(openedAt),
      bytes,
      windowStarts: starts && [instant(starts.from), instant(starts.to)],
      windowEnds: ends && [instant(ends.from), instant(ends.to)],
      chain,
    });
  }
}

/** IDENTITY and HEAD, one line of JSON each. */
export async function* describeHead(directory: string): AsyncGenerator<string, void, void> {
  yield JSON.stringify({ identity: (await readIdentity(directory)) ?? null });
  yield JSON.stringify({ head: await readHead(directory) });
}

/** One line of JSON per cursor. */
export async function* describeCursors(directory: string): AsyncGenerator<string, void, void> {
  const inspection = await openInspection(directory);
  try {
    const newest = inspection.paths.at(-1);
    if (newest === undefined) return;
    const { database, name } = await inspection.open(newest);
    for await (const [, , body] of walkEntries(database, name, keysOf(KEY_SPACE.cursor))) {
      yield body.toString();
    }
  } finally {
    await inspection.close();
  }
}

function instant(ms: number): string {
  return new Date(ms).toISOString();
}
