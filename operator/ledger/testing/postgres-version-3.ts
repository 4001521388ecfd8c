/**
 * A stream as the program before version 4 of the tables wrote it, on 2026-11-21: two events of acme with the properties
 * `{"basis":"usage"}`, the second with the id `theirs-1`, and one of bravo without; a record, and a cursor at the second.
 */
export const VERSION_3_ROWS = `
create table meterfeed.event_20261121 (like meterfeed.event including defaults);
alter table meterfeed.event_20261121 add primary key (stream, seq), add unique (stream, id);
create index on meterfeed.event_20261121 using brin (window_start);
alter table meterfeed.event attach partition meterfeed.event_20261121
  for values from ('2026-11-21') to ('2026-11-22');

insert into meterfeed.stream (stream, source, region, ledger_id, created_at, epoch, owner, head, batch,
    chain, series_head, low_water, horizon, last_window_end, retention_ms, copying)
  values (1, 'cluster-a', 'region-a', 'ce27d857-6824-4c42-961d-d9c1b4fdfcbe', 1795251660000, 1, 'before', 3, 2,
    'f62f4cb89202e95df213d685339ab0cdf609399c770ceb32a34e5575b5883e1a', 2, 0, 0, 1795251660000, 604800000, false);
insert into meterfeed.series (stream, series, key, fields, tenant, metric, unit, region, source, dimensions, last_day)
  values (1, 1, '51118350-ae07-334c-d139-e1c942354f00',
    'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source,properties',
    'acme', 'tenant_instance_hours', 'hours', 'eu-central-1', 'collector',
    '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-21'),
  (1, 2, 'ecd4c32d-5501-adb0-f6db-a41437ce682c',
    'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source',
    'bravo', 'tenant_instance_hours', 'hours', 'eu-central-1', 'collector',
    '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-21');
insert into meterfeed.event (day, stream, seq, window_start, window_end, recorded_at, series, crc, id, quantity,
    foreign_id, extra)
  values ('2026-11-21', 1, 1, 1795251600000, 1795251660000, 1795251663000, 1, 1336471479,
    'fc6d627c-0b74-67e2-5911-89492c1a9842', 0.016666667, null, '{"properties":{"basis":"usage"}}'),
  ('2026-11-21', 1, 2, 1795251600000, 1795251660000, 1795251663000, 1, -1267424245,
    'e51c740b-f83c-6d7e-1de7-abd555970dc4', 2, 'theirs-1', '{"properties":{"basis":"usage"}}'),
  ('2026-11-21', 1, 3, 1795251600000, 1795251660000, 1795251663000, 2, 1480913585,
    'c639d8d4-c32b-cc14-f2b9-cb85f16b97e8', 12.5, null, null);
insert into meterfeed.segment (day, stream, first_seq, last_seq, min_start, max_start, min_end, max_end,
    foreign_ids, opened_at, first_chain, chain)
  values ('2026-11-21', 1, 1, 3, 1795251600000, 1795251600000, 1795251660000, 1795251660000, true, 1795251660000,
    '0000000000000000000000000000000000000000000000000000000000000000',
    'f62f4cb89202e95df213d685339ab0cdf609399c770ceb32a34e5575b5883e1a');
insert into meterfeed.batch (day, stream, first_seq, last_seq, min_start, max_start, appended_at, chain)
  values ('2026-11-21', 1, 1, 3, 1795251600000, 1795251600000, 1795251660000,
    'f62f4cb89202e95df213d685339ab0cdf609399c770ceb32a34e5575b5883e1a');
insert into meterfeed.record (stream, key, value) values (1, 'journal', '1');
insert into meterfeed.cursor (stream, destination, seq, window_end, retired_at)
  values (1, 'lago', 2, 1795251660000, null);
`;
