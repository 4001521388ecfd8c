import { isHubRecord } from '../fleet.ts';
import { HeadWaiters } from '../head-waiters.ts';
import type { Cursor, WriteOutcome } from '../ledger.ts';
import type { RequestOutcome } from '../writer.ts';
import { cursorsAfter, cursorStatements, recordStatements } from './entries.ts';
import type { FencedWriter } from './fenced-writer.ts';
import type { LedgerStore, RecordPlace } from './ledger-store.ts';
import { type BatchPlan, planBatch, type PostgresRequest } from './plan-batch.ts';
import type { Query } from './readers.ts';
import { HUB_SCHEMA } from './schema-name.ts';
import type { Session, Statement } from './session.ts';
import { type Contents, cursorOf, readContents, type StreamView } from './state.ts';

/** A stream as the hub has it: events and published records are the stream's, cursors and own records the hub's. */
export class HubStream implements LedgerStore {
  readonly schema: string;
  readonly heads: HeadWaiters;
  readonly #writer: FencedWriter;
  readonly #query: Query;
  #contents: Contents;

  constructor(schema: string, writer: FencedWriter, query: Query, contents: Contents) {
    this.schema = schema;
    this.heads = new HeadWaiters(contents.state.head);
    this.#writer = writer;
    this.#query = query;
    this.#contents = contents;
  }

  contents(): Contents {
    return this.#contents;
  }

  view(): StreamView {
    return { schema: this.schema, contents: this.#contents, query: this.#query };
  }

  recordsAt(key: string): RecordPlace {
    if (isHubRecord(key)) return { table: `${HUB_SCHEMA}.record`, before: ownName(this.schema) };
    return { table: `${this.schema}.published_record`, before: '' };
  }

  async write(requests: readonly PostgresRequest[]): Promise<readonly RequestOutcome[]> {
    const outcome = await this.#writer.write<BatchPlan>({
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

  /** As `OpenStreamOutcome.adopt`. */
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

  /** Takes what the operator of the stream has written, once that is certain to last. */
  refresh({ state, segments }: Contents): void {
    this.#contents = { state, segments, cursors: this.#contents.cursors };
    this.heads.advance(state.head);
  }

  async close(): Promise<void> {
    this.heads.end(new Error('ledger: closed'));
  }

  async #writeEntries(
    session: Session,
    before: Contents,
    { records, cursors }: BatchPlan,
  ): Promise<ReadonlyMap<string, Cursor>> {
    const own = ownName(this.schema);
    const named = new Map([...cursors].map(([name, cursor]) => [own + name, cursor]));
    const keyed = new Map([...records].map(([key, value]) => [own + key, value]));
    const { lastBatch } = this.#writer.next();
    const answers = await session.run([
      { text: `update ${HUB_SCHEMA}.writer set last_batch = $1`, values: [lastBatch] },
      ...recordStatements(HUB_SCHEMA, keyed),
      ...cursorStatements(HUB_SCHEMA, `${this.schema}.event`, named),
    ]);
    const moved = answers.slice(answers.length - cursors.size).flatMap(({ rows }) => rows);
    const rows = moved.map((row) => ({
      ...row,
      destination: row['destination']?.slice(own.length) ?? '',
    }));
    return cursorsAfter(before.cursors, cursors, rows);
  }
}

/** Copies the cursor of the operator of a stream, and what it remembers of the destination. The first answer has the cursor. */
function adoptStatements(schema: string, destination: string): readonly Statement[] {
  return [
    {
      text: `insert into ${HUB_SCHEMA}.cursor (destination, seq, window_end, retired_at)
        select $1 || destination, seq, window_end, retired_at from ${schema}.published_cursor
          where destination = $2
        returning $2 as destination, seq, window_end, retired_at`,
      values: [ownName(schema), destination],
    },
    {
      text: `insert into ${HUB_SCHEMA}.record (key, value)
        select $1 || key, value from ${schema}.published_record where starts_with(key, $2)
        on conflict (key) do update set value = excluded.value`,
      values: [ownName(schema), `delivery/${destination}/`],
    },
  ];
}

/** What the hub writes before the keys and names of a stream. */
function ownName(schema: string): string {
  return `${schema}/`;
}

/** The cursors that the hub has in a stream. */
function cursorsStatement(schema: string): Statement {
  const own = ownName(schema);
  return {
    text: `select substr(destination, ${own.length + 1}) as destination, seq, window_end, retired_at
      from ${HUB_SCHEMA}.cursor where starts_with(destination, $1)`,
    values: [own],
  };
}

/**
 * Reads a stream in a transaction of the hub. The first time it takes over what the hub of an earlier release has written
 * among the stream's cursors and records: each side retires what it does not feed.
 */
export async function openHubStream(session: Session, schema: string): Promise<Contents> {
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
  const values = [ownName(schema), source];
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
