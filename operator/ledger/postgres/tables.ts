/**
 * Prefixes of the records that a hub may read: reports, tenants, their states, gaps, GPUs and
 * plans. Neither the journal nor data of destinations.
 */
const PUBLISHED = [
  'costs/',
  'delivery/',
  'discovery/',
  'enforcement/tenant/',
  'fleet/',
  'gap/',
  'gpus/',
  'prometheus/gap/',
  'window-report/',
];

/** The tables of records and cursors, which a stream and a hub share in form. */
export function entryTables(schema: string): string {
  return `create table ${schema}.record (
  key text collate "C" primary key,
  value text not null
);

create table ${schema}.cursor (
  destination text collate "C" primary key,
  seq bigint not null,
  window_end bigint,
  retired_at bigint
) with (fillfactor = 50);
`;
}

/**
 * The tables of a stream (docs/reference/ledger-format.md#postgresql). Times outside of events are
 * milliseconds since the epoch. `event` has a partition for each week of appending, which the
 * program creates.
 */
const TABLES = (schema: string): string => `
create table ${schema}.stream (
  only_row boolean primary key default true check (only_row),
  ledger_id uuid not null,
  source text not null,
  region text not null,
  created_at bigint not null,
  -- Grows with every process that comes to write.
  epoch bigint not null,
  owner text not null,
  head bigint not null,
  low_water bigint not null,
  horizon bigint not null,
  last_batch bigint not null,
  chain text not null,
  -- Batches that begin with this sequence number or a later one are chained by their trees.
  linked_from bigint not null,
  last_window_end bigint,
  retention_ms bigint not null,
  -- What the stream is being copied from; null once it is complete.
  copied_from text
) with (fillfactor = 50);

create table ${schema}.event (
  stored_on date not null,
  -- The CRC-32 of the event's text, started from its sequence number.
  crc integer not null,
  seq bigint not null,
  window_start timestamptz not null,
  window_end timestamptz not null,
  recorded_at timestamptz not null,
  quantity numeric not null,
  id text collate "C" not null,
  tenant text not null,
  metric text not null,
  unit text not null,
  region text,
  project text,
  sku text,
  resource_id text,
  source text,
  dimensions json,
  properties json,
  -- The event's text where the other columns do not give exactly that text.
  original text
) partition by range (stored_on);

${batchTables(schema)}
${entryTables(schema)}
create view ${schema}.published_cursor as
select destination, seq, window_end, retired_at from ${schema}.cursor;

create view ${schema}.published_record as
select key, value from ${schema}.record
  where ${PUBLISHED.map((prefix) => `starts_with(key, '${prefix}')`).join(' or ')};
`;

const batchTables = (schema: string): string => `
-- Events that follow each other in one week.
create table ${schema}.segment (
  first_seq bigint primary key,
  last_seq bigint not null,
  week date not null,
  min_start bigint not null,
  max_start bigint not null,
  min_end bigint not null,
  max_end bigint not null,
  opened_at bigint not null
) with (fillfactor = 50);

create table ${schema}.batch (
  last_seq bigint primary key,
  first_seq bigint not null,
  min_start bigint not null,
  max_start bigint not null,
  appended_at bigint not null,
  chain text not null,
  -- The root of the tree; null before the link.
  root text
);

-- What stands behind the events of an hour.
create table ${schema}.evidence (
  key text collate "C" primary key,
  value text not null
);
`;

/**
 * Views for people who read usage with SQL (docs/how-to/sql.md). Their columns never change: new
 * columns or meanings get a view with the next number. They run with their owner's rights, so a
 * reader needs none on the tables.
 */
const VIEWS = (schema: string): string => `
create view ${schema}.events_v1 as
select s.source as cluster, e.seq as sequence, e.id, e.tenant, e.metric, e.quantity, e.unit, e.window_start,
    e.window_end, e.recorded_at, e.region, e.project, e.sku, e.resource_id, e.source, e.dimensions, e.stored_on
  from ${schema}.event e cross join ${schema}.stream s
  where s.copied_from is null;

create view ${schema}.sums_by_hour_v1 as
select cluster, tenant, metric, unit, date_trunc('hour', window_start, 'UTC') as hour,
    sum(quantity) as quantity, count(*) as events
  from ${schema}.events_v1
  group by cluster, tenant, metric, unit, date_trunc('hour', window_start, 'UTC');

create view ${schema}.sums_by_day_v1 as
select cluster, tenant, metric, unit, (window_start at time zone 'UTC')::date as day,
    sum(quantity) as quantity, count(*) as events
  from ${schema}.events_v1
  group by cluster, tenant, metric, unit, (window_start at time zone 'UTC')::date;

create view ${schema}.cursors_v1 as
select s.source as cluster, c.destination, c.seq as sequence, s.head - c.seq as events_behind,
    to_timestamp(c.window_end / 1000.0) as window_end, to_timestamp(c.retired_at / 1000.0) as retired_at
  from ${schema}.cursor c cross join ${schema}.stream s
  where s.copied_from is null;

create view ${schema}.gaps_v1 as
select s.source as cluster, g.gap ->> 'source' as source, g.gap ->> 'scope' as scope,
    to_timestamp((g.gap ->> 'from')::bigint / 1000.0) as gap_start,
    to_timestamp((g.gap ->> 'to')::bigint / 1000.0) as gap_end,
    g.gap ->> 'reason' as reason
  from ${schema}.stream s cross join lateral (
    -- JSON may contain U+0000, which PostgreSQL's text cannot hold.
    select replace(value, '\\u0000', '\\ufffd')::json as gap
      from ${schema}.record where key >= 'gap/' and key < 'gap0'
  ) g
  where s.copied_from is null;
`;

/** Migration steps of a stream's schema, in order. Its version is the number of steps run. */
export const STREAM_STEPS: readonly ((schema: string) => string)[] = [
  (schema) => TABLES(schema) + VIEWS(schema),
  (schema) => `-- Sums of events, and how far they go.
create table ${schema}.rollup (
  key text collate "C" primary key,
  value text not null
) with (fillfactor = 70);
`,
];

/** SQL that grants a hub's role read access to a stream. */
export function grantsToHub(schema: string, hub: string): readonly string[] {
  const tables = [
    'stream',
    'event',
    'segment',
    'batch',
    'published_cursor',
    'published_record',
    'rollup',
  ];
  const names = tables.map((name) => `${schema}.${name}`).join(', ');
  return [`grant usage on schema ${schema} to ${hub}`, `grant select on ${names} to ${hub}`];
}
