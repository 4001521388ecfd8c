import type { Clock } from '../../telemetry/clock.ts';
import type { FencedWriter } from './fenced-writer.ts';
import type { HubStreamStore } from './hub-stream-store.ts';
import type { RunQuery } from './readers.ts';
import { HUB_SCHEMA } from './schema-name.ts';
import type { DatabaseRow } from './session.ts';
import { type StreamContents, readContents } from './state.ts';

const POLL_MS = 250;

/**
 * Updates a hub's view of its streams: polls the rows of all streams in one query and reads the
 * changed ones in a transaction. The server can only confirm this transaction after everything
 * visible in it, so a commit that a failover would undo is never delivered. A failed read is
 * repeated with the next poll. Never rejects.
 */
export async function followStreams(
  /** The open streams; the loop ends when there is none. */
  streams: ReadonlySet<HubStreamStore>,
  query: RunQuery,
  writer: FencedWriter,
  clock: Clock,
): Promise<void> {
  while (streams.size > 0) {
    await clock.sleep(POLL_MS);
    const all = [...streams];
    const found = await rowsOf(all, query);
    const changed = all.filter((stream) => hasChanged(stream, found.get(stream.schema)));
    if (changed.length === 0) continue;
    const outcome = await writer.write<ReadonlyMap<HubStreamStore, StreamContents>>({
      run: async (session) => {
        const read = new Map<HubStreamStore, StreamContents>();
        for (const stream of changed)
          read.set(stream, await readContents(session, stream.schema, NO_CURSORS));
        const text = `update ${HUB_SCHEMA}.writer set last_batch = $1`;
        await session.run([{ text, values: [writer.next().lastBatch] }]);
        return { result: read, stored: () => undefined };
      },
    });
    if (outcome.kind === 'failed') continue;
    for (const [stream, contents] of outcome.result) stream.refresh(contents);
  }
}

/** A refresh reads no cursors. */
const NO_CURSORS = {
  text: `select destination, seq, window_end, retired_at from ${HUB_SCHEMA}.cursor where false`,
  values: [],
};

/** The rows of the streams by schema. An unreadable stream does not affect the others. */
async function rowsOf(
  streams: readonly HubStreamStore[],
  query: RunQuery,
): Promise<ReadonlyMap<string, DatabaseRow>> {
  const each = streams.map(
    ({ schema }) => `select '${schema}' as schema, last_batch, low_water from ${schema}.stream`,
  );
  const rows = await query({ text: each.join(' union all '), values: [] }).catch(async () => {
    const found = each.map((text) => query({ text, values: [] }).catch(() => []));
    return (await Promise.all(found)).flat();
  });
  return new Map(rows.map((row) => [row['schema'] ?? '', row]));
}

function hasChanged(stream: HubStreamStore, row: DatabaseRow | undefined): boolean {
  return row !== undefined && Number(row['last_batch']) !== stream.contents().state.lastBatch;
}
