import { HUB_SCHEMA, schemaOf } from '../postgres/schema-name.ts';

/**
 * SQL that a database administrator runs once: it creates a role for each stream, and one for the
 * hub. Each role owns the schema of its name and has no rights in others; the operator of a stream
 * grants the hub access to what it publishes. It contains no password.
 */
export function rolesSql({
  streams,
  hub,
}: {
  /** Names of clusters (CLUSTER_NAME), each with a stream. */
  readonly streams: readonly string[];
  /** Whether a hub reads the streams of the database. */
  readonly hub: boolean;
}): string {
  const named = streams.map((source) => ({
    role: schemaOf(source),
    // A line break would end the comment.
    of: `the operator with CLUSTER_NAME=${JSON.stringify(source)}`,
  }));
  const roles = [...named, ...(hub ? [{ role: HUB_SCHEMA, of: 'the hub' }] : [])];
  const texts = roles.map(
    ({ role, of }) => `-- The role of ${of}. Set its password with \\password ${role} in psql.
create role ${role} login nosuperuser nocreatedb nocreaterole noreplication nobypassrls;
create schema ${role} authorization ${role};
`,
  );
  return texts.join('\n');
}
