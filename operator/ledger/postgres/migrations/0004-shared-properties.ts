/**
 * Properties that the events of a series share, and no null in a new event, which makes room for one bitmap less
 * (docs/ledger-format.md#postgresql). Rows from before stay as they are: they say everything themselves.
 */
export const SQL = `
alter table meterfeed.series add column properties text;

create or replace view meterfeed_v1.events as
select s.source as cluster,
    e.seq as sequence,
    coalesce(nullif(e.foreign_id, ''), 'svc1_' || replace(e.id::text, '-', '')) as id,
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
`;
