/**
 * Streams, and everything that belongs to one (docs/ledger-format.md#postgresql). Times are milliseconds
 * since the epoch, so that nothing depends on a session's time zone.
 */
export const SQL = `
create table meterfeed.stream (
  stream integer primary key,
  source text not null unique,
  region text not null unique,
  ledger_id uuid not null,
  created_at bigint not null,
  -- Who may write: grows with every start and after every commit whose outcome was not known.
  epoch bigint not null,
  owner text not null,
  head bigint not null,
  batch bigint not null,
  chain text not null,
  series_head integer not null,
  low_water bigint not null,
  horizon bigint not null,
  last_window_end bigint,
  retention_ms bigint not null
) with (fillfactor = 50);

create table meterfeed.series (
  stream integer not null,
  series integer not null,
  key uuid not null,
  -- The names of the event's fields in the order in which they stand in its text.
  fields text not null,
  tenant text not null,
  metric text not null,
  unit text not null,
  region text,
  project text,
  sku text,
  resource_id text,
  source text,
  dimensions text,
  -- The newest day that has events of it; it goes when that day has gone.
  last_day date not null,
  primary key (stream, series),
  unique (stream, key)
);

-- One partition for each day of appending, made with its own keys by the program.
create table meterfeed.event (
  day date not null,
  stream integer not null,
  seq bigint not null,
  window_start bigint not null,
  window_end bigint not null,
  recorded_at bigint not null,
  series integer not null,
  -- The CRC-32 of the event's text, started from its number.
  crc integer not null,
  id uuid not null,
  quantity numeric not null,
  foreign_id text,
  extra json
) partition by range (day);

create table meterfeed.segment (
  day date not null,
  stream integer not null,
  first_seq bigint not null,
  last_seq bigint not null,
  min_start bigint not null,
  max_start bigint not null,
  min_end bigint not null,
  max_end bigint not null,
  foreign_ids boolean not null,
  opened_at bigint not null,
  first_chain text not null,
  chain text not null,
  primary key (stream, day)
) with (fillfactor = 50);

create table meterfeed.batch (
  day date not null,
  stream integer not null,
  first_seq bigint not null,
  last_seq bigint not null,
  min_start bigint not null,
  max_start bigint not null,
  appended_at bigint not null,
  chain text not null,
  primary key (stream, day, last_seq)
);

create table meterfeed.record (
  stream integer not null,
  key text collate "C" not null,
  value text not null,
  primary key (stream, key)
);

create table meterfeed.cursor (
  stream integer not null,
  destination text collate "C" not null,
  seq bigint not null,
  window_end bigint,
  retired_at bigint,
  primary key (stream, destination)
) with (fillfactor = 50);
`;
