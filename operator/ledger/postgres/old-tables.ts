import { crc32 } from 'node:zlib';
import { EVENT_ID_PREFIX } from '../../model/event-id.ts';
import { decodeEvent, SCHEMA_VERSION } from '../../model/event.ts';
import { sequenceSeed } from '../event-chain.ts';
import { damage, ledgerFailure } from '../failures.ts';
import { LedgerReadError } from '../ledger.ts';
import { instantText } from './instants.ts';
import type { RunQuery } from './readers.ts';
import { readRecords } from './reading.ts';
import type { DatabaseRow } from './session.ts';
import { cursorOf } from './state.ts';
import type { CopiedBatch, CopyOrigin } from './begin-copy.ts';
import type { ReadEvent } from './event-row.ts';

/** Name of the copy's origin, and the schema in which an earlier release had all streams. */
export const OLD_SCHEMA = 'meterfeed';

/** Version of the tables in the last release that used them. */
const OLD_VERSION = 6;
const PAGE_BATCHES = 200;

/**
 * Finds a stream in the tables of an earlier release; undefined if there is none. Marks it, so that
 * no process of that release reads or writes it from now on. Throws a LedgerReadError if it cannot
 * be copied.
 */
export async function takeOldStream(
  query: RunQuery,
  source: string,
  schema: string,
): Promise<CopyOrigin | undefined> {
  const [tables] = await query({
    text: `select has_table_privilege(to_regclass($1), 'select') as readable`,
    values: [`${OLD_SCHEMA}.stream`],
  });
  if (tables?.['readable'] === null) return undefined;
  if (tables?.['readable'] !== 't') {
    throw refusal(
      `an earlier release has streams in the schema ${OLD_SCHEMA}, which this role may not read: start once with the role that owns it, or drop the schema if you do not need it`,
    );
  }
  const [row] = await query({
    text: `select * from ${OLD_SCHEMA}.stream where source = $1`,
    values: [source],
  });
  if (row === undefined) return undefined;
  const [version] = await query({
    text: `select max(version) as version from ${OLD_SCHEMA}.version`,
  });
  if (Number(version?.['version']) !== OLD_VERSION) {
    throw refusal(
      `the tables of the schema ${OLD_SCHEMA} are of version ${version?.['version']}: start the release that makes version ${OLD_VERSION} of them once`,
    );
  }
  const owner = `moved to ${schema}`;
  if (row['copying'] === 't' && row['owner'] !== owner) {
    throw refusal(
      `the earlier release has not completed its copy into the stream: complete it there first`,
    );
  }
  await query({
    text: `update ${OLD_SCHEMA}.stream set copying = true, owner = $2, epoch = epoch + 1
      where source = $1 and owner <> $2`,
    values: [source, owner],
  });
  return originOf(query, source);
}

/** Reads the row again: a process of the earlier release may have written until it was fenced. */
async function originOf(query: RunQuery, source: string): Promise<CopyOrigin> {
  const [row = {}] = await query({
    text: `select * from ${OLD_SCHEMA}.stream where source = $1`,
    values: [source],
  });
  const stream = Number(row['stream']);
  const segments = await query({
    text: `select first_seq, first_chain from ${OLD_SCHEMA}.segment where stream = $1 order by day`,
    values: [stream],
  });
  const cursors = await query({
    text: `select destination, seq, window_end, retired_at from ${OLD_SCHEMA}.cursor where stream = $1`,
    values: [stream],
  });
  const head = Number(row['head']);
  const { last_window_end: end } = row;
  return {
    name: OLD_SCHEMA,
    beginning: {
      ledgerId: row['ledger_id'] ?? '',
      createdAt: Number(row['created_at']),
      lowWater: Number(row['low_water']),
      chain: segments[0]?.['first_chain'] ?? row['chain'] ?? '',
      linkedFrom: head + 1,
    },
    head,
    chain: row['chain'] ?? '',
    horizon: Number(row['horizon']),
    ...(typeof end === 'string' && { lastWindowEnd: Number(end) }),
    cursors: cursors.map(cursorOf),
    batches: (after) => batchesOf(query, stream, segments, after),
    // The primary key of the records begins with the stream.
    records: () =>
      readRecords(
        query,
        {
          table: `(select key, value from ${OLD_SCHEMA}.record where stream = ${stream}) r`,
          before: '',
        },
        '',
      ),
  };
}

async function* batchesOf(
  query: RunQuery,
  stream: number,
  segments: readonly DatabaseRow[],
  after: number,
): AsyncGenerator<CopiedBatch, void, void> {
  const chains = new Map(segments.map((row) => [Number(row['first_seq']), row['first_chain']]));
  for (let last = after; ; ) {
    const batches = await query({
      text: `select day::text, first_seq, last_seq, appended_at, chain from ${OLD_SCHEMA}.batch
        where stream = $1 and last_seq > $2 order by last_seq limit ${PAGE_BATCHES}`,
      values: [stream, last],
    });
    if (batches.length === 0) return;
    const events = await eventsOf(query, stream, batches);
    for (const row of batches) {
      const firstSequence = Number(row['first_seq']);
      const lastSequence = Number(row['last_seq']);
      const chainBefore = chains.get(firstSequence);
      const of = events.splice(0, lastSequence - firstSequence + 1);
      const isComplete = of.length === lastSequence - firstSequence + 1;
      if (
        !isComplete ||
        of[0]?.sequence !== firstSequence ||
        of.at(-1)?.sequence !== lastSequence
      ) {
        throw damage(`events of ${row['day']}`, `the batch at ${lastSequence} is not complete`);
      }
      yield {
        firstSequence,
        lastSequence,
        events: of,
        appendedAt: Number(row['appended_at']),
        chain: row['chain'] ?? '',
        ...(typeof chainBefore === 'string' && { chainBefore }),
      };
      last = lastSequence;
    }
  }
}

async function eventsOf(
  query: RunQuery,
  stream: number,
  batches: readonly DatabaseRow[],
): Promise<ReadEvent[]> {
  const days = [...new Set(batches.map((row) => row['day']))];
  const rows = await query({
    text: `select e.seq, e.window_start, e.window_end, e.recorded_at, e.crc, e.id, e.quantity, e.foreign_id, e.extra,
        k.fields, k.tenant, k.metric, k.unit, k.region, k.project, k.sku, k.resource_id, k.source,
        k.dimensions, k.properties
      from ${OLD_SCHEMA}.event e
        join ${OLD_SCHEMA}.series k on k.stream = e.stream and k.series = e.series
      where e.stream = $1 and e.day = any($2::date[]) and e.seq >= $3 and e.seq <= $4 order by e.seq`,
    values: [stream, days, batches[0]?.['first_seq'], batches.at(-1)?.['last_seq']],
  });
  return rows.map((row) => {
    const sequence = Number(row['seq']);
    const text = textOf(row);
    if ((crc32(text, sequenceSeed(sequence)) | 0) !== Number(row['crc'])) {
      throw damage('events', `event ${sequence} is damaged`);
    }
    return { sequence, text, event: decodeEvent(text) };
  });
}

/** The exact text of an event; `extra` has the parts that columns and series do not reproduce. */
function textOf(row: DatabaseRow): string {
  const extra: Readonly<Record<string, unknown>> = JSON.parse(row['extra'] ?? '{}');
  if (typeof extra['text'] === 'string') return extra['text'];
  const values: Record<string, unknown> = {};
  for (const name of (row['fields'] ?? '').split(','))
    values[name] = extra[name] ?? valueOf(name, row);
  const { quantity: exact } = extra;
  const quantity = typeof exact === 'string' ? exact : row['quantity'];
  return `${JSON.stringify(values).slice(0, -1)},"quantity":${quantity}}`;
}

function valueOf(name: string, row: DatabaseRow): unknown {
  const stored = row[name] ?? undefined;
  switch (name) {
    case 'schema_version':
      return SCHEMA_VERSION;
    case 'id':
      return row['foreign_id'] || EVENT_ID_PREFIX + (stored ?? '').replaceAll('-', '');
    case 'window_start':
    case 'window_end':
    case 'recorded_at':
      return instantText(Number(stored));
    case 'dimensions':
    case 'properties':
      return stored && JSON.parse(stored);
    default:
      return stored;
  }
}

function refusal(what: string): LedgerReadError {
  return new LedgerReadError(ledgerFailure('invalid', `ledger: database: ${what}`));
}
