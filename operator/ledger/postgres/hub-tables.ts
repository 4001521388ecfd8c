import { migrate } from './migrate.ts';
import { HUB_SCHEMA } from './schema-name.ts';
import type { Session } from './session.ts';
import { entryTables } from './tables.ts';

/**
 * The tables of a hub (docs/reference/ledger-format.md#the-schema-of-a-hub). Record keys and cursor
 * names begin with the schema of their stream and a slash. The role that owns a stream's schema may
 * read the hub's cursors of it.
 */
const TABLES = (schema: string): string => `
-- Which process of the hub leads. \`epoch\` is a key, so that a claim waits for readers with a lock and a renewal does not.
create table ${schema}.lease (
  only_row boolean primary key default true check (only_row),
  owner text not null,
  epoch bigint not null unique,
  renewals bigint not null
);
insert into ${schema}.lease (owner, epoch, renewals) values ('', 0, 0);

create table ${schema}.writer (
  only_row boolean primary key default true check (only_row),
  owner text not null,
  epoch bigint not null,
  last_batch bigint not null
) with (fillfactor = 50);
insert into ${schema}.writer (owner, epoch, last_batch) values ('', 0, 0);

-- The streams that this hub has opened.
create table ${schema}.stream (
  schema text primary key
);

${entryTables(schema)}
create table ${schema}.customer (
  destination text collate "C" not null,
  tenant text collate "C" not null,
  -- What was provisioned, and for which streams.
  value text not null,
  primary key (destination, tenant)
);

create view ${schema}.cursor_of_stream with (security_barrier) as
select n.nspname as stream, substr(c.destination, length(n.nspname) + 2) as destination,
    c.seq, c.window_end, c.retired_at
  from ${schema}.cursor c
    join pg_namespace n on n.nspname = split_part(c.destination, '/', 1)
  where pg_has_role(n.nspowner, 'usage');

grant usage on schema ${schema} to public;
grant select on ${schema}.cursor_of_stream to public;
`;

/** Copies the customers of an earlier release, if this role may read them. */
const CUSTOMERS = (schema: string): string => `
do $$ begin
if has_table_privilege(to_regclass('meterfeed.customer'), 'select') then
  insert into ${schema}.customer (destination, tenant, value)
    select destination, tenant, value from meterfeed.customer where value <> '';
end if;
end $$;
`;

/** Migrates the schema of a hub to this program's version. Throws like {@link migrate}. */
export function migrateHub(session: Session): Promise<void> {
  const steps = [(schema: string) => TABLES(schema) + CUSTOMERS(schema)];
  return migrate(session, HUB_SCHEMA, steps, 'npm run ledger -- roles --hub');
}
