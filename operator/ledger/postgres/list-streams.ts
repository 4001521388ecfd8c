import type { StreamName } from '../fleet.ts';
import { SCHEMA_PREFIX } from './schema-name.ts';
import type { Session } from './session.ts';

/** A stream that the role may read. */
export interface ListedStream extends StreamName {
  readonly schema: string;
  /** Source of an unfinished copy; absent once the copy is complete. */
  readonly copiedFrom?: string;
}

/** The streams of a database whose schemas the role may read, by CLUSTER_NAME. */
export async function listStreams(session: Session): Promise<readonly ListedStream[]> {
  const [found] = await session.run([
    {
      text: `select n.nspname as schema from pg_namespace n
          join pg_class c on c.relnamespace = n.oid and c.relname = 'stream' and c.relkind = 'r'
          join pg_class p on p.relnamespace = n.oid and p.relname = 'published_record'
        where starts_with(n.nspname, $1) and has_schema_privilege(n.oid, 'usage')
          and has_table_privilege(c.oid, 'select')`,
      values: [SCHEMA_PREFIX],
    },
  ]);
  const schemas = found?.rows.map(({ schema }) => schema ?? '') ?? [];
  if (schemas.length === 0) return [];
  const each = schemas.map(
    (schema) => `select '${schema}' as schema, source, region, copied_from from ${schema}.stream`,
  );
  const [streams] = await session.run([
    { text: `${each.join(' union all ')} order by source`, values: [] },
  ]);
  return (streams?.rows ?? []).map(({ schema, source, region, copied_from: copiedFrom }) => ({
    schema: schema ?? '',
    source: source ?? '',
    region: region ?? '',
    ...(typeof copiedFrom === 'string' && { copiedFrom }),
  }));
}
