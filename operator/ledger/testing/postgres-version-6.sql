CREATE SCHEMA meterfeed;
CREATE SCHEMA meterfeed_v1;
CREATE TABLE meterfeed.batch (
    day date NOT NULL,
    stream integer NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    min_start bigint NOT NULL,
    max_start bigint NOT NULL,
    appended_at bigint NOT NULL,
    chain text NOT NULL
);
CREATE TABLE meterfeed.cursor (
    stream integer NOT NULL,
    destination text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    window_end bigint,
    retired_at bigint
)
WITH (fillfactor='50');
CREATE TABLE meterfeed.customer (
    destination text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);
CREATE TABLE meterfeed.event (
    day date NOT NULL,
    stream integer NOT NULL,
    seq bigint NOT NULL,
    window_start bigint NOT NULL,
    window_end bigint NOT NULL,
    recorded_at bigint NOT NULL,
    series integer NOT NULL,
    crc integer NOT NULL,
    id uuid NOT NULL,
    quantity numeric NOT NULL,
    foreign_id text,
    extra json
)
PARTITION BY RANGE (day);
CREATE TABLE meterfeed.event_20261121 (
    day date NOT NULL,
    stream integer NOT NULL,
    seq bigint NOT NULL,
    window_start bigint NOT NULL,
    window_end bigint NOT NULL,
    recorded_at bigint NOT NULL,
    series integer NOT NULL,
    crc integer NOT NULL,
    id uuid NOT NULL,
    quantity numeric NOT NULL,
    foreign_id text,
    extra json
);
CREATE TABLE meterfeed.event_20261123 (
    day date NOT NULL,
    stream integer NOT NULL,
    seq bigint NOT NULL,
    window_start bigint NOT NULL,
    window_end bigint NOT NULL,
    recorded_at bigint NOT NULL,
    series integer NOT NULL,
    crc integer NOT NULL,
    id uuid NOT NULL,
    quantity numeric NOT NULL,
    foreign_id text,
    extra json
);
CREATE TABLE meterfeed.event_20261124 (
    day date NOT NULL,
    stream integer NOT NULL,
    seq bigint NOT NULL,
    window_start bigint NOT NULL,
    window_end bigint NOT NULL,
    recorded_at bigint NOT NULL,
    series integer NOT NULL,
    crc integer NOT NULL,
    id uuid NOT NULL,
    quantity numeric NOT NULL,
    foreign_id text,
    extra json
);
CREATE TABLE meterfeed.lease (
    stream integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    address text NOT NULL,
    epoch bigint NOT NULL,
    renewals bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE meterfeed.record (
    stream integer NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);
CREATE TABLE meterfeed.segment (
    day date NOT NULL,
    stream integer NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    min_start bigint NOT NULL,
    max_start bigint NOT NULL,
    min_end bigint NOT NULL,
    max_end bigint NOT NULL,
    foreign_ids boolean NOT NULL,
    opened_at bigint NOT NULL,
    first_chain text NOT NULL,
    chain text NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE meterfeed.series (
    stream integer NOT NULL,
    series integer NOT NULL,
    key uuid NOT NULL,
    fields text NOT NULL,
    tenant text NOT NULL,
    metric text NOT NULL,
    unit text NOT NULL,
    region text,
    project text,
    sku text,
    resource_id text,
    source text,
    dimensions text,
    last_day date NOT NULL,
    properties text
);
CREATE TABLE meterfeed.stream (
    stream integer NOT NULL,
    source text NOT NULL,
    region text NOT NULL,
    ledger_id uuid NOT NULL,
    created_at bigint NOT NULL,
    epoch bigint NOT NULL,
    owner text NOT NULL,
    head bigint NOT NULL,
    batch bigint NOT NULL,
    chain text NOT NULL,
    series_head integer NOT NULL,
    low_water bigint NOT NULL,
    horizon bigint NOT NULL,
    last_window_end bigint,
    retention_ms bigint NOT NULL,
    copying boolean DEFAULT false NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE meterfeed.version (
    version integer NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE meterfeed.writer (
    stream integer NOT NULL,
    owner text NOT NULL,
    batch bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (fillfactor='50');
CREATE VIEW meterfeed_v1.cursors AS
 SELECT s.source AS cluster,
    c.destination,
    c.seq AS sequence,
    (s.head - c.seq) AS events_behind,
    to_timestamp((((c.window_end)::numeric / 1000.0))::double precision) AS window_end,
    to_timestamp((((c.retired_at)::numeric / 1000.0))::double precision) AS retired_at
   FROM (meterfeed.cursor c
     JOIN meterfeed.stream s ON ((s.stream = c.stream)))
  WHERE (NOT s.copying);
CREATE VIEW meterfeed_v1.events AS
 SELECT s.source AS cluster,
    e.seq AS sequence,
    COALESCE(NULLIF(e.foreign_id, ''::text), ('svc1_'::text || replace((e.id)::text, '-'::text, ''::text))) AS id,
    k.tenant,
    k.metric,
    e.quantity,
    k.unit,
    to_timestamp((((e.window_start)::numeric / 1000.0))::double precision) AS window_start,
    to_timestamp((((e.window_end)::numeric / 1000.0))::double precision) AS window_end,
    to_timestamp((((e.recorded_at)::numeric / 1000.0))::double precision) AS recorded_at,
    k.region,
    k.project,
    k.sku,
    k.resource_id,
    k.source,
    (k.dimensions)::json AS dimensions,
    e.day AS stored_on
   FROM ((meterfeed.event e
     JOIN meterfeed.stream s ON ((s.stream = e.stream)))
     JOIN meterfeed.series k ON (((k.stream = e.stream) AND (k.series = e.series))))
  WHERE (NOT s.copying);
CREATE VIEW meterfeed_v1.gaps AS
 SELECT s.source AS cluster,
    (g.gap ->> 'source'::text) AS source,
    (g.gap ->> 'scope'::text) AS scope,
    to_timestamp((((((g.gap ->> 'from'::text))::bigint)::numeric / 1000.0))::double precision) AS gap_start,
    to_timestamp((((((g.gap ->> 'to'::text))::bigint)::numeric / 1000.0))::double precision) AS gap_end,
    (g.gap ->> 'reason'::text) AS reason
   FROM (meterfeed.stream s
     CROSS JOIN LATERAL ( SELECT (replace(r.value, '\u0000'::text, '\ufffd'::text))::json AS gap
           FROM meterfeed.record r
          WHERE ((r.stream = s.stream) AND (r.key >= 'gap/'::text) AND (r.key < 'gap0'::text))) g)
  WHERE (NOT s.copying);
CREATE VIEW meterfeed_v1.sums_by_day AS
 SELECT events.cluster,
    events.tenant,
    events.metric,
    events.unit,
    ((events.window_start AT TIME ZONE 'UTC'::text))::date AS day,
    sum(events.quantity) AS quantity,
    count(*) AS events
   FROM meterfeed_v1.events
  GROUP BY events.cluster, events.tenant, events.metric, events.unit, (((events.window_start AT TIME ZONE 'UTC'::text))::date);
CREATE VIEW meterfeed_v1.sums_by_hour AS
 SELECT events.cluster,
    events.tenant,
    events.metric,
    events.unit,
    date_trunc('hour'::text, events.window_start, 'UTC'::text) AS hour,
    sum(events.quantity) AS quantity,
    count(*) AS events
   FROM meterfeed_v1.events
  GROUP BY events.cluster, events.tenant, events.metric, events.unit, (date_trunc('hour'::text, events.window_start, 'UTC'::text));
ALTER TABLE ONLY meterfeed.event ATTACH PARTITION meterfeed.event_20261121 FOR VALUES FROM ('2026-11-21') TO ('2026-11-22');
ALTER TABLE ONLY meterfeed.event ATTACH PARTITION meterfeed.event_20261123 FOR VALUES FROM ('2026-11-23') TO ('2026-11-24');
ALTER TABLE ONLY meterfeed.event ATTACH PARTITION meterfeed.event_20261124 FOR VALUES FROM ('2026-11-24') TO ('2026-11-25');
INSERT INTO meterfeed.batch VALUES ('2026-11-21', 2, 1, 2, 1795251600000, 1795251600000, 1795251660000, '53909b5535ec4d3ef1a9d3fde1fbe25880da4aef88b901c95ed3e252f351ea8e');
INSERT INTO meterfeed.batch VALUES ('2026-11-21', 1, 1, 8, 1795251600000, 1795251600000, 1795251660000, '8821e20c0b9f82a58597001c505ac580fc1f0dc894eab3396e94134054d8dad4');
INSERT INTO meterfeed.batch VALUES ('2026-11-23', 1, 9, 10, 1795251660000, 1795251660000, 1795424460000, '5c04aef4a2429f85fa2123aa5e519d876e386b91019bb4bebd59c332fc002e62');
INSERT INTO meterfeed.batch VALUES ('2026-11-23', 1, 11, 12, 1795251720000, 1795251720000, 1795424460000, '5a63decf2be750a68623e40ed8cf8476815ccdb36f80438e9db9124b5cba9672');
INSERT INTO meterfeed.batch VALUES ('2026-11-23', 1, 13, 14, 1795251780000, 1795251780000, 1795424460000, '59bdad333e1d740833310cc06f0098a76c57880753b90590b46a4b46d0ea4412');
INSERT INTO meterfeed.batch VALUES ('2026-11-24', 1, 17, 19, 1795251900000, 1795251900000, 1795510860000, '5612ad5c5820415068ee76264a4b1db483ff8ee4c9e08782854eb4beeecf1c9a');
INSERT INTO meterfeed.cursor VALUES (1, 'lago', 5, 1795251660000, NULL);
INSERT INTO meterfeed.cursor VALUES (1, 'old', 2, 1795251660000, 1795251600000);
INSERT INTO meterfeed.customer VALUES ('lago', 'acme', '{"fingerprint":"f","streams":["berlin"]}');
INSERT INTO meterfeed.event_20261121 VALUES ('2026-11-21', 2, 1, 1795251600000, 1795251660000, 1795251663000, 1, 2073951586, 'fed83e75-9902-3aec-e2fd-d1dd003622e0', 0.016666667, '', '{}');
INSERT INTO meterfeed.event_20261121 VALUES ('2026-11-21', 2, 2, 1795251600000, 1795251660000, 1795251663000, 2, 984587250, 'e2d36a23-b862-c389-d8a0-3a9c7aebed0e', 0.016666667, '', '{}');
INSERT INTO meterfeed.event_20261121 VALUES ('2026-11-21', 1, 1, 1795251600000, 1795251660000, 1795251663000, 1, 1336471479, 'fc6d627c-0b74-67e2-5911-89492c1a9842', 0.016666667, '', '{}');
INSERT INTO meterfeed.event_20261121 VALUES ('2026-11-21', 1, 2, 1795251600000, 1795251660000, 1795251663000, 2, -1912746920, 'c639d8d4-c32b-cc14-f2b9-cb85f16b97e8', 12345678901234567890.5, '', '{}');
INSERT INTO meterfeed.event_20261121 VALUES ('2026-11-21', 1, 3, 1795251600000, 1795251660000, 1795251663000, 3, 314940873, 'e51c740b-f83c-6d7e-1de7-abd555970dc4', 2, 'theirs-1', '{}');
INSERT INTO meterfeed.event_20261121 VALUES ('2026-11-21', 1, 4, 1795251600000, 1795251660000, 1795251663000, 4, 12316871, '6ff94fba-2fa4-99e4-8c7d-643902746fee', 0.016666667, 'odd��', '{"text":"{\"schema_version\":\"svc.usage/v1\",\"id\":\"odd\\u0000\\ud800\",\"tenant\":\"x\\u0000y\",\"metric\":\"tenant_instance_hours\",\"window_start\":\"2026-11-21T09:00:00Z\",\"window_end\":\"2026-11-21T09:01:00Z\",\"region\":\"eu-central-1\",\"dimensions\":{\"tenant_cluster\":\"tenant-vcluster-a-a\",\"tenant_class\":\"dev\"},\"unit\":\"é\\\"\\\\\",\"recorded_at\":\"2026-11-21T09:01:03Z\",\"source\":\"collector\",\"quantity\":0.016666667}"}');
INSERT INTO meterfeed.event_20261121 VALUES ('2026-11-21', 1, 5, 1795251600000, 1795251660000, 1795251663123, 5, 493393807, 'd14a58ba-e804-a2b8-0b5b-76a010239c88', 0.016666667, 'fine', '{"recorded_at":"2026-11-21T09:01:03.123456789Z"}');
INSERT INTO meterfeed.event_20261121 VALUES ('2026-11-21', 1, 6, 1795251600000, 1795251660000, 1795251663250, 6, 940912894, 'a11ae064-69c6-3740-d7b0-ecf802f282a0', 0.016666667, 'half', '{"properties":{"n":0.5,"b":true}}');
INSERT INTO meterfeed.event_20261121 VALUES ('2026-11-21', 1, 7, 1795251600000, 1795251660000, 1795251663000, 7, 460411961, '180e72f2-546d-22ca-23be-a2610e7675e0', 0.016666667, '', '{}');
INSERT INTO meterfeed.event_20261121 VALUES ('2026-11-21', 1, 8, 1795251600000, 1795251660000, 1795251663000, 8, -1772586938, 'e3b0c442-98fc-1c14-9afb-f4c8996fb924', 0.016666667, '', '{"text":"{\"schema_version\":\"svc.usage/v1\",\"id\":\"\",\"tenant\":\"no id\",\"metric\":\"tenant_instance_hours\",\"window_start\":\"2026-11-21T09:00:00Z\",\"window_end\":\"2026-11-21T09:01:00Z\",\"region\":\"eu-central-1\",\"dimensions\":{\"tenant_cluster\":\"tenant-vcluster-a-a\",\"tenant_class\":\"dev\"},\"unit\":\"hours\",\"recorded_at\":\"2026-11-21T09:01:03Z\",\"source\":\"collector\",\"quantity\":0.016666667}"}');
INSERT INTO meterfeed.event_20261123 VALUES ('2026-11-23', 1, 9, 1795251660000, 1795251720000, 1795251723000, 1, 646356699, '70c02be1-3a33-62c6-fc4e-9496a94b6305', 0.016666667, '', '{}');
INSERT INTO meterfeed.event_20261123 VALUES ('2026-11-23', 1, 10, 1795251660000, 1795251720000, 1795251723000, 2, 1186132534, 'c5c8ed26-e31e-f5d0-110a-74a658cb4307', 0.016666667, '', '{}');
INSERT INTO meterfeed.event_20261123 VALUES ('2026-11-23', 1, 11, 1795251720000, 1795251780000, 1795251783000, 1, -230088016, '246f9fb4-41c9-b3b3-2da8-da104c7f9271', 0.016666667, '', '{}');
INSERT INTO meterfeed.event_20261123 VALUES ('2026-11-23', 1, 12, 1795251720000, 1795251780000, 1795251783000, 2, 79918232, 'c3e54175-de7d-e88e-22a9-a6d3105fcb84', 0.016666667, '', '{}');
INSERT INTO meterfeed.event_20261123 VALUES ('2026-11-23', 1, 13, 1795251780000, 1795251840000, 1795251843000, 1, -1841598206, 'ebf0eb06-90a4-0aa6-2a69-0b361bc55042', 0.016666667, '', '{}');
INSERT INTO meterfeed.event_20261123 VALUES ('2026-11-23', 1, 14, 1795251780000, 1795251840000, 1795251843000, 2, -285443353, 'e30207cb-2a41-79c1-9432-a72be826c02e', 0.016666667, '', '{}');
INSERT INTO meterfeed.event_20261124 VALUES ('2026-11-24', 1, 17, 1795251900000, 1795251960000, 1795251963000, 9, -1618881496, '9a77892a-ebc4-e25f-83e8-0de06456e161', 0.016666667, '', '{}');
INSERT INTO meterfeed.event_20261124 VALUES ('2026-11-24', 1, 18, 1795251900000, 1795251960000, 1795251963000, 10, 978975290, 'aa3f23b1-4d9e-166e-7253-ced3127a8bcd', 0.016666667, '', '{}');
INSERT INTO meterfeed.event_20261124 VALUES ('2026-11-24', 1, 19, 1795251900000, 1795251960000, 1795251963000, 11, 1884622539, 'cbaac829-7b2b-2a54-1e46-11a1c2cfc4ac', 0.016666667, '', '{}');
INSERT INTO meterfeed.record VALUES (1, 'journal/state', 'é');
INSERT INTO meterfeed.record VALUES (1, 'delivery/lago/state', '{}');
INSERT INTO meterfeed.segment VALUES ('2026-11-21', 2, 1, 2, 1795251600000, 1795251600000, 1795251660000, 1795251660000, false, 1795251660000, '0000000000000000000000000000000000000000000000000000000000000000', '53909b5535ec4d3ef1a9d3fde1fbe25880da4aef88b901c95ed3e252f351ea8e');
INSERT INTO meterfeed.segment VALUES ('2026-11-21', 1, 1, 8, 1795251600000, 1795251600000, 1795251660000, 1795251660000, true, 1795251660000, '0000000000000000000000000000000000000000000000000000000000000000', '8821e20c0b9f82a58597001c505ac580fc1f0dc894eab3396e94134054d8dad4');
INSERT INTO meterfeed.segment VALUES ('2026-11-23', 1, 9, 14, 1795251660000, 1795251780000, 1795251720000, 1795251840000, false, 1795424460000, '8821e20c0b9f82a58597001c505ac580fc1f0dc894eab3396e94134054d8dad4', '59bdad333e1d740833310cc06f0098a76c57880753b90590b46a4b46d0ea4412');
INSERT INTO meterfeed.segment VALUES ('2026-11-24', 1, 17, 19, 1795251900000, 1795251900000, 1795251960000, 1795251960000, false, 1795510860000, '59bdad333e1d740833310cc06f0098a76c57880753b90590b46a4b46d0ea4412', '5612ad5c5820415068ee76264a4b1db483ff8ee4c9e08782854eb4beeecf1c9a');
INSERT INTO meterfeed.series VALUES (2, 1, '352f4494-d827-a742-4606-05ddc4087ca4', 'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source', 'tenant-vcluster-0-main', 'tenant_instance_hours', 'hours', 'eu-central-1', NULL, NULL, NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-21', NULL);
INSERT INTO meterfeed.series VALUES (2, 2, '3eeb33e5-bb39-e60e-f101-d06fb0886fcc', 'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source', 'tenant-vcluster-1-main', 'tenant_instance_hours', 'hours', 'eu-central-1', NULL, NULL, NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-21', NULL);
INSERT INTO meterfeed.series VALUES (1, 3, '8c8d39d2-94da-c05f-9aeb-bc19e86fe628', 'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source', 'acme', 'tenant_instance_hours', 'hours', 'eu-central-1', NULL, NULL, NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-21', NULL);
INSERT INTO meterfeed.series VALUES (1, 4, 'f06f3585-6d75-8f29-23fc-abec06f1b505', 'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source', 'x�y', 'tenant_instance_hours', 'é"\', 'eu-central-1', NULL, NULL, NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-21', NULL);
INSERT INTO meterfeed.series VALUES (1, 5, 'c5d10f4f-139a-7315-a358-bf0942a05c70', 'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source', 'fine', 'tenant_instance_hours', 'hours', 'eu-central-1', NULL, NULL, NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-21', NULL);
INSERT INTO meterfeed.series VALUES (1, 6, '65fe307b-b828-446a-5f16-604306c52aa2', 'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source,properties', 'fine', 'tenant_instance_hours', 'hours', 'eu-central-1', NULL, NULL, NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-21', NULL);
INSERT INTO meterfeed.series VALUES (1, 7, '5b8673e3-819f-7153-2834-bf80002d3e4c', 'sku,schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source', 'turned', 'tenant_instance_hours', 'hours', 'eu-central-1', NULL, 'x', NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-21', NULL);
INSERT INTO meterfeed.series VALUES (1, 8, '7bb16ba1-4748-2a98-d447-2c6146b4ab23', 'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source', 'no id', 'tenant_instance_hours', 'hours', 'eu-central-1', NULL, NULL, NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-21', NULL);
INSERT INTO meterfeed.series VALUES (1, 1, '51118350-ae07-334c-d139-e1c942354f00', 'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source,properties', 'acme', 'tenant_instance_hours', 'hours', 'eu-central-1', NULL, NULL, NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-23', '{"basis":"usage"}');
INSERT INTO meterfeed.series VALUES (1, 2, 'ecd4c32d-5501-adb0-f6db-a41437ce682c', 'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source', 'bravo', 'tenant_instance_hours', 'hours', 'eu-central-1', NULL, NULL, NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-23', NULL);
INSERT INTO meterfeed.series VALUES (1, 9, '352f4494-d827-a742-4606-05ddc4087ca4', 'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source', 'tenant-vcluster-0-main', 'tenant_instance_hours', 'hours', 'eu-central-1', NULL, NULL, NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-24', NULL);
INSERT INTO meterfeed.series VALUES (1, 10, '3eeb33e5-bb39-e60e-f101-d06fb0886fcc', 'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source', 'tenant-vcluster-1-main', 'tenant_instance_hours', 'hours', 'eu-central-1', NULL, NULL, NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-24', NULL);
INSERT INTO meterfeed.series VALUES (1, 11, '8a9bf1e6-28a4-a7d8-f457-dc7aecca2fa5', 'schema_version,id,tenant,metric,window_start,window_end,region,dimensions,unit,recorded_at,source', 'tenant-vcluster-2-main', 'tenant_instance_hours', 'hours', 'eu-central-1', NULL, NULL, NULL, 'collector', '{"tenant_cluster":"tenant-vcluster-a-a","tenant_class":"dev"}', '2026-11-24', NULL);
INSERT INTO meterfeed.stream VALUES (2, 'paris', 'eu-2', '942cb803-ce15-407f-8672-de3f9dfa9217', 1795251660000, 1, 'vm 66f74596-4ea1-426e-b8eb-55d0bb95c530', 2, 1, '53909b5535ec4d3ef1a9d3fde1fbe25880da4aef88b901c95ed3e252f351ea8e', 2, 0, 0, NULL, 604800000, false);
INSERT INTO meterfeed.stream VALUES (1, 'berlin', 'eu-1', 'e4317bb1-29c5-4981-b6d1-9c197946b0c4', 1795251660000, 1, 'vm 65a2b422-19bb-4e26-bc4b-fc678692e4c1', 19, 9, '5612ad5c5820415068ee76264a4b1db483ff8ee4c9e08782854eb4beeecf1c9a', 11, 0, 0, 1795251960000, 604800000, false);
INSERT INTO meterfeed.version VALUES (1, '2026-11-28 19:11:14.534544+00');
INSERT INTO meterfeed.version VALUES (2, '2026-11-28 19:11:14.534544+00');
INSERT INTO meterfeed.version VALUES (3, '2026-11-28 19:11:14.534544+00');
INSERT INTO meterfeed.version VALUES (4, '2026-11-28 19:11:14.534544+00');
INSERT INTO meterfeed.version VALUES (5, '2026-11-28 19:11:14.534544+00');
INSERT INTO meterfeed.version VALUES (6, '2026-11-28 19:11:14.534544+00');
ALTER TABLE ONLY meterfeed.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (stream, day, last_seq);
ALTER TABLE ONLY meterfeed.cursor
    ADD CONSTRAINT cursor_pkey PRIMARY KEY (stream, destination);
ALTER TABLE ONLY meterfeed.customer
    ADD CONSTRAINT customer_pkey PRIMARY KEY (destination, tenant);
ALTER TABLE ONLY meterfeed.event_20261121
    ADD CONSTRAINT event_20261121_pkey PRIMARY KEY (stream, seq) WITH (fillfactor='100');
ALTER TABLE ONLY meterfeed.event_20261121
    ADD CONSTRAINT event_20261121_stream_id_key UNIQUE (stream, id);
ALTER TABLE ONLY meterfeed.event_20261123
    ADD CONSTRAINT event_20261123_pkey PRIMARY KEY (stream, seq) WITH (fillfactor='100');
ALTER TABLE ONLY meterfeed.event_20261123
    ADD CONSTRAINT event_20261123_stream_id_key UNIQUE (stream, id);
ALTER TABLE ONLY meterfeed.event_20261124
    ADD CONSTRAINT event_20261124_pkey PRIMARY KEY (stream, seq) WITH (fillfactor='100');
ALTER TABLE ONLY meterfeed.event_20261124
    ADD CONSTRAINT event_20261124_stream_id_key UNIQUE (stream, id);
ALTER TABLE ONLY meterfeed.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (stream, name);
ALTER TABLE ONLY meterfeed.record
    ADD CONSTRAINT record_pkey PRIMARY KEY (stream, key);
ALTER TABLE ONLY meterfeed.segment
    ADD CONSTRAINT segment_pkey PRIMARY KEY (stream, day);
ALTER TABLE ONLY meterfeed.series
    ADD CONSTRAINT series_pkey PRIMARY KEY (stream, series);
ALTER TABLE ONLY meterfeed.series
    ADD CONSTRAINT series_stream_key_key UNIQUE (stream, key);
ALTER TABLE ONLY meterfeed.stream
    ADD CONSTRAINT stream_pkey PRIMARY KEY (stream);
ALTER TABLE ONLY meterfeed.stream
    ADD CONSTRAINT stream_region_key UNIQUE (region);
ALTER TABLE ONLY meterfeed.stream
    ADD CONSTRAINT stream_source_key UNIQUE (source);
ALTER TABLE ONLY meterfeed.version
    ADD CONSTRAINT version_pkey PRIMARY KEY (version);
ALTER TABLE ONLY meterfeed.writer
    ADD CONSTRAINT writer_pkey PRIMARY KEY (stream, owner);
CREATE INDEX event_20261121_window_start_idx ON meterfeed.event_20261121 USING brin (window_start);
CREATE INDEX event_20261123_window_start_idx ON meterfeed.event_20261123 USING brin (window_start);
CREATE INDEX event_20261124_window_start_idx ON meterfeed.event_20261124 USING brin (window_start);
