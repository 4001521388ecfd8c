/**
 * Views for whoever reads usage with SQL (docs/sql.md). What they have stays as it is: other columns, or another
 * meaning, are views of another schema. They run with the rights of their owner, so that a reader needs none on the
 * tables. A stream that is still being copied is not in them.
 */
export const SQL = `
create schema meterfeed_v1;

create view meterfeed_v1.events as
select s.source as cluster,
    e.seq as sequence,
    coalesce(e.foreign_id, 'svc1_' || replace(e.id::text, '-', '')) as id,
    k.tenant,
    k.metric,
    e.quantity,
    k.unit,
    to_timestamp(e.window_start / 1000.0) as window_start,
    to_timestamp(e.window_end / 1000.0) as window_end,
    to_timestamp(e.recorded_at / 1000.0) as recorded_at,
    k.region,
    k.project,
    k.sku,
    k.resource_id,
    k.source,
    k.dimensions::json as dimensions,
    e.day as stored_on
  from meterfeed.event e
    join meterfeed.stream s on s.stream = e.stream
    join meterfeed.series k on k.stream = e.stream and k.series = e.series
  where not s.copying;

create view meterfeed_v1.sums_by_hour as
select cluster, tenant, metric, unit,
    date_trunc('hour', window_start, 'UTC') as hour,
    sum(quantity) as quantity,
    count(*) as events
  from meterfeed_v1.events
  group by cluster, tenant, metric, unit, date_trunc('hour', window_start, 'UTC');

create view meterfeed_v1.sums_by_day as
select cluster, tenant, metric, unit,
    (window_start at time zone 'UTC')::date as day,
    sum(quantity) as quantity,
    count(*) as events
  from meterfeed_v1.events
  group by cluster, tenant, metric, unit, (window_start at time zone 'UTC')::date;

create view meterfeed_v1.cursors as
select s.source as cluster,
    c.destination,
    c.seq as sequence,
    s.head - c.seq as events_behind,
    to_timestamp(c.window_end / 1000.0) as window_end,
    to_timestamp(c.retired_at / 1000.0) as retired_at
  from meterfeed.cursor c
    join meterfeed.stream s on s.stream = c.stream
  where not s.copying;

create view meterfeed_v1.gaps as
select s.source as cluster,
    g.gap ->> 'source' as source,
    g.gap ->> 'scope' as scope,
    to_timestamp((g.gap ->> 'from')::bigint / 1000.0) as gap_start,
    to_timestamp((g.gap ->> 'to')::bigint / 1000.0) as gap_end,
    g.gap ->> 'reason' as reason
  from meterfeed.stream s
    cross join lateral (
      -- JSON may say U+0000, which text of PostgreSQL cannot hold.
      select replace(r.value, '\\u0000', '\\ufffd')::json as gap
        from meterfeed.record r
        where r.stream = s.stream and r.key >= 'gap/' and r.key < 'gap0'
    ) g
  where not s.copying;
`;
