import type { Clock } from '../../telemetry/clock.ts';
import type { FencedWriter } from './fenced-writer.ts';
import type { HubStream } from './hub-stream.ts';
import type { Query } from './readers.ts';
import { HUB_SCHEMA } from './schema-name.ts';
import type { Row } from './session.ts';
import { type Contents, readContents } from './state.ts';

const POLL_MS = 250;

/**
 * Keeps what a hub knows of its streams up to date: reads the rows of all streams in one query, and what has changed in a
 * transaction that the server can only confirm after everything visible in it. So a commit that only the primary has, and
 * that a failover takes back, is not delivered. What cannot be read is read with the next poll. Never rejects.
 */
export async function followStreams(
  /** Those that are open; the loop ends when there is none. */
  streams: ReadonlySet<HubStream>,
  query: Query,
  writer: FencedWriter,
  clock: Clock,
): Promise<void> {
  while (streams.size > 0) {
    await clock.sleep(POLL_MS);
    const all = [...streams];
    const found = await rowsOf(all, query);
    const changed = all.filter((stream) => hasChanged(stream, found.get(stream.schema)));
    if (changed.length === 0) continue;
    const outcome = await writer.write<ReadonlyMap<HubStream, Contents>>({
      run: async (session) => {
        const read = new Map<HubStream, Contents>();
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

/** Refreshing changes no cursor. */
const NO_CURSORS = {
  text: `select destination, seq, window_end, retired_at from ${HUB_SCHEMA}.cursor where false`,
  values: [],
};

/** The rows of streams by schema. One that cannot be read takes none of the others along. */
async function rowsOf(
  streams: readonly HubStream[],
  query: Query,
): Promise<ReadonlyMap<string, Row>> {
  const each = streams.map(
    ({ schema }) => `select '${schema}' as schema, last_batch, low_water from ${schema}.stream`,
  );
  const rows = await query({ text: each.join(' union all '), values: [] }).catch(async () => {
    const found = each.map((text) => query({ text, values: [] }).catch(() => []));
    return (await Promise.all(found)).flat();
  });
  return new Map(rows.map((row) => [row['schema'] ?? '', row]));
}

function hasChanged(stream: HubStream, row: Row | undefined): boolean {
  return row !== undefined && Number(row['last_batch']) !== stream.contents().state.lastBatch;
}
