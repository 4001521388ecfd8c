import { isHubRecord } from '../fleet.ts';
import { HeadWaiters } from '../head-waiters.ts';
import type { Cursor, WriteOutcome } from '../ledger.ts';
import type { WriteRequestOutcome } from '../writer.ts';
import { cursorsAfter, cursorStatements, recordStatements } from './entries.ts';
import type { FencedWriter } from './fenced-writer.ts';
import type { LedgerStore, RecordPlace } from './ledger-store.ts';
import { type StreamBatchPlan, planBatch, type PostgresRequest } from './plan-batch.ts';
import type { RunQuery } from './readers.ts';
import { HUB_SCHEMA } from './schema-name.ts';
import type { Session, Statement } from './session.ts';
import { type StreamContents, cursorOf, readContents, type StreamView } from './state.ts';

/**
 * A stream as the hub sees it: events and published records are the stream's, cursors and the hub's
 * records are in the hub's schema.
 */
export class HubStreamStore implements LedgerStore {
  readonly schema: string;
  readonly heads: HeadWaiters;
  readonly #writer: FencedWriter;
  readonly #query: RunQuery;
  #contents: StreamContents;

  constructor(schema: string, writer: FencedWriter, query: RunQuery, contents: StreamContents) {
    this.schema = schema;
    this.heads = new HeadWaiters(contents.state.head);
    this.#writer = writer;
    this.#query = query;
    this.#contents = contents;
  }

  contents(): StreamContents {
    return this.#contents;
  }

  view(): StreamView {
    return { schema: this.schema, contents: this.#contents, query: this.#query };
  }

  recordsAt(key: string): RecordPlace {
    if (isHubRecord(key))
      return { table: `${HUB_SCHEMA}.record`, before: streamPrefix(this.schema) };
    return { table: `${this.schema}.published_record`, before: '' };
  }

  async write(requests: readonly PostgresRequest[]): Promise<readonly WriteRequestOutcome[]> {
    const outcome = await this.#writer.write<StreamBatchPlan>({
      run: async (session) => {
        const before = this.#contents;
        const plan = planBatch(requests, before, new Map());
        if (plan.records.size + plan.cursors.size === 0) return { result: plan, stored: undefined };
        const cursors = await this.#writeEntries(session, before, plan);
        return {
          result: plan,
          stored: () => {
            this.#contents = { ...this.#contents, cursors };
          },
        };
      },
    });
    if (outcome.kind === 'failed') return requests.map(() => outcome);
    return outcome.result.outcomes;
  }

  /** See `OpenStreamOutcome.adopt`. */
  async adopt(destination: string): Promise<WriteOutcome> {
    if (this.#contents.cursors.has(destination)) return { kind: 'written' };
    const outcome = await this.#writer.write<undefined>({
      run: async (session) => {
        const { lastBatch } = this.#writer.next();
        const [, answer] = await session.run([
          { text: `update ${HUB_SCHEMA}.writer set last_batch = $1`, values: [lastBatch] },
          ...adoptStatements(this.schema, destination),
        ]);
        const [row] = answer?.rows ?? [];
        return {
          result: undefined,
          stored: () => {
            if (row === undefined) return;
            const cursors = new Map(this.#contents.cursors).set(destination, cursorOf(row));
            this.#contents = { ...this.#contents, cursors };
          },
        };
      },
    });
    return outcome.kind === 'failed' ? outcome : { kind: 'written' };
  }

  /** Applies what the stream's operator has written, after a commit confirmed it. */
  refresh({ state, segments }: StreamContents): void {
    this.#contents = { state, segments, cursors: this.#contents.cursors };
    this.heads.advance(state.head);
  }

  async close(): Promise<void> {
    this.heads.end(new Error('ledger: closed'));
  }

  async #writeEntries(
    session: Session,
    before: StreamContents,
    { records, cursors }: StreamBatchPlan,
  ): Promise<ReadonlyMap<string, Cursor>> {
    const prefix = streamPrefix(this.schema);
    const named = new Map([...cursors].map(([name, cursor]) => [prefix + name, cursor]));
    const keyed = new Map([...records].map(([key, value]) => [prefix + key, value]));
    const { lastBatch } = this.#writer.next();
    const answers = await session.run([
      { text: `update ${HUB_SCHEMA}.writer set last_batch = $1`, values: [lastBatch] },
      ...recordStatements(HUB_SCHEMA, keyed),
      ...cursorStatements(HUB_SCHEMA, `${this.schema}.event`, named),
    ]);
    const moved = answers.slice(answers.length - cursors.size).flatMap(({ rows }) => rows);
    const rows = moved.map((row) => ({
      ...row,
      destination: row['destination']?.slice(prefix.length) ?? '',
    }));
    return cursorsAfter(before.cursors, cursors, rows);
  }
}

/** Copies a destination's cursor and delivery records. The first answer has the cursor. */
function adoptStatements(schema: string, destination: string): readonly Statement[] {
  return [
    {
      text: `insert into ${HUB_SCHEMA}.cursor (destination, seq, window_end, retired_at)
        select $1 || destination, seq, window_end, retired_at from ${schema}.published_cursor
          where destination = $2
        returning $2 as destination, seq, window_end, retired_at`,
      values: [streamPrefix(schema), destination],
    },
    {
      text: `insert into ${HUB_SCHEMA}.record (key, value)
        select $1 || key, value from ${schema}.published_record where starts_with(key, $2)
        on conflict (key) do update set value = excluded.value`,
      values: [streamPrefix(schema), `delivery/${destination}/`],
    },
  ];
}

/** Prefix of the hub's record keys and cursor names of a stream. */
function streamPrefix(schema: string): string {
  return `${schema}/`;
}

function cursorsStatement(schema: string): Statement {
  const prefix = streamPrefix(schema);
  return {
    text: `select substr(destination, ${prefix.length + 1}) as destination, seq, window_end, retired_at
      from ${HUB_SCHEMA}.cursor where starts_with(destination, $1)`,
    values: [prefix],
  };
}

/**
 * Reads a stream in a transaction of the hub. The first time it also copies the cursors and records
 * that a hub of an earlier release wrote into the stream; each side later retires what it does not
 * deliver.
 */
export async function openHubStream(session: Session, schema: string): Promise<StreamContents> {
  const [added] = await session.run([
    {
      text: `insert into ${HUB_SCHEMA}.stream (schema) values ($1) on conflict do nothing`,
      values: [schema],
    },
  ]);
  const contents = await readContents(session, schema, cursorsStatement(schema));
  if (added?.rowCount !== 1) return contents;
  return { ...contents, cursors: await adoptEntries(session, schema, contents.state.source) };
}

async function adoptEntries(
  session: Session,
  schema: string,
  source: string,
): Promise<ReadonlyMap<string, Cursor>> {
  const [old] = await session.run([
    {
      text: `select has_table_privilege(to_regclass('meterfeed.cursor'), 'select') as readable`,
      values: [],
    },
  ]);
  if (old?.rows[0]?.['readable'] !== 't') return new Map();
  const of = 'join meterfeed.stream s on s.stream = o.stream where s.source = $2';
  const values = [streamPrefix(schema), source];
  const [, cursors] = await session.run([
    {
      text: `insert into ${HUB_SCHEMA}.record (key, value)
        select $1 || o.key, o.value from meterfeed.record o ${of} and starts_with(o.key, 'delivery/')`,
      values,
    },
    {
      text: `insert into ${HUB_SCHEMA}.cursor (destination, seq, window_end, retired_at)
        select $1 || o.destination, o.seq, o.window_end, o.retired_at from meterfeed.cursor o ${of}
        returning substr(destination, ${values[0]?.length ?? 0} + 1) as destination, seq, window_end, retired_at`,
      values,
    },
  ]);
  const found = cursors?.rows.map(cursorOf) ?? [];
  return new Map(found.map((cursor) => [cursor.destination, cursor]));
}
