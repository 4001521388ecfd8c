import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { Client } from 'pg';
import type { LedgerDatabase } from '../../settings/settings.ts';
import type { UsageEvent } from '../../model/event.ts';
import { encodeStoredEvents, FIRST_CHAIN, nextChain, sequenceSeed } from '../event-chain.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from './events.ts';

/**
 * A database as the last release with shared tables left it on 2026-11-24: the streams `berlin`,
 * with all that its rows can be, and `paris`. What that release read of berlin is in
 * `postgres-version-6.events`, each line a number and a text.
 */
const VERSION_6 = read('postgres-version-6.sql');
export const VERSION_6_EVENTS: readonly string[] = read('postgres-version-6.events')
  .trimEnd()
  .split('\n');

const STREAM = 9;
const GROUP_WINDOWS = 50;
const FIELDS =
  'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source';

function read(name: string): string {
  return readFileSync(join(import.meta.dirname, name), 'utf8');
}

export async function withClient<T>(
  { host, port, user, name }: LedgerDatabase,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = new Client({ host, port, user, database: name });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

export async function restoreVersion6(database: LedgerDatabase): Promise<void> {
  await withClient(database, (client) => client.query(VERSION_6));
}

/**
 * Adds the stream `rome` with so many windows, one event for each of `tenants`, as that release
 * wrote them. Gives the lines that {@link VERSION_6_EVENTS} has of berlin.
 */
export function addOldStream(
  database: LedgerDatabase,
  windows: number,
  tenants: number,
): Promise<readonly string[]> {
  return withClient(database, async (client) => {
    const lines: string[] = [];
    await client.query(
      `insert into meterfeed.series (stream, series, key, fields, tenant, metric, unit, region, source, dimensions, last_day)
        select $1, n, md5(n::text)::uuid, $2, t.tenant, $3, $4, $5, $6, $7, '2026-11-21'
        from unnest($8::text[]) with ordinality t (tenant, n)`,
      [STREAM, FIELDS, ...seriesOf(testWindow(TEST_WINDOW_START, tenants))],
    );
    let chain = FIRST_CHAIN;
    for (let from = 0; from < windows; from += GROUP_WINDOWS) {
      chain = await addWindows(
        client,
        { from, to: Math.min(windows, from + GROUP_WINDOWS) },
        tenants,
        chain,
        lines,
      );
    }
    const head = lines.length;
    await client.query(
      `insert into meterfeed.segment select '2026-11-21', ${STREAM}, 1, max(last_seq), min(min_start), max(max_start),
          min(min_start), max(max_start) + ${TEST_WINDOW_MS}, false, min(appended_at), $1, $2
        from meterfeed.batch where stream = ${STREAM}`,
      [FIRST_CHAIN, chain],
    );
    await client.query(
      `insert into meterfeed.stream (stream, source, region, ledger_id, created_at, epoch, owner, head, batch, chain,
          series_head, low_water, horizon, retention_ms)
        values ($1, 'rome', 'it', gen_random_uuid(), 0, 1, 'before', $2, $3, $4, $5, 0, 0, 1)`,
      [STREAM, head, windows, chain, tenants],
    );
    return lines;
  });
}

function seriesOf(events: readonly UsageEvent[]): readonly unknown[] {
  const [first] = events;
  const { metric, unit, region, source, dimensions } = first ?? {};
  const tenants = events.map(({ tenant }) => tenant);
  return [metric, unit, region, source, JSON.stringify(dimensions), tenants];
}

async function addWindows(
  client: Client,
  range: { readonly from: number; readonly to: number },
  tenants: number,
  before: string,
  lines: string[],
): Promise<string> {
  const rows: unknown[][] = [];
  const batches: unknown[][] = [];
  let chain = before;
  for (let window = range.from; window < range.to; window++) {
    const start = TEST_WINDOW_START + window * TEST_WINDOW_MS;
    const first = lines.length + 1;
    const texts = testWindow(start, tenants).map((event, index) => {
      const rest = JSON.stringify({ ...event, quantity: undefined });
      const text = `${rest.slice(0, -1)},"quantity":${event.quantity}}`;
      const sequence = first + index;
      lines.push(`${sequence} ${text}`);
      const checksum = crc32(text, sequenceSeed(sequence)) | 0;
      rows.push([sequence, start, index + 1, checksum, event.id.slice('svc1_'.length)]);
      return text;
    });
    chain = nextChain(chain).update(encodeStoredEvents(first, texts).bytes).digest('hex');
    batches.push([first, lines.length, start, chain]);
  }
  const column = (table: readonly unknown[][], index: number) => table.map((row) => row[index]);
  await client.query(
    `insert into meterfeed.event (day, stream, seq, window_start, window_end, recorded_at, series, crc, id, quantity,
        foreign_id, extra)
      select '2026-11-21', ${STREAM}, seq, start, start + 60000, start + 63000, series, crc, id, 0.016666667, '', '{}'
      from unnest($1::bigint[], $2::bigint[], $3::integer[], $4::integer[], $5::uuid[])
        as row (seq, start, series, crc, id)`,
    [0, 1, 2, 3, 4].map((index) => column(rows, index)),
  );
  await client.query(
    `insert into meterfeed.batch (day, stream, first_seq, last_seq, min_start, max_start, appended_at, chain)
      select '2026-11-21', ${STREAM}, first, last, start, start, start + 60000, chain
      from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) as row (first, last, start, chain)`,
    [0, 1, 2, 3].map((index) => column(batches, index)),
  );
  return chain;
}
