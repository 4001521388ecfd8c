import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Registry } from 'prom-client';
import type { LedgerDatabase, LedgerDurability } from '../../settings/settings.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { Problems } from '../failures.ts';
import type { StreamName } from '../fleet.ts';
import type { LedgerFailure, OpenLedgerOutcome } from '../ledger.ts';
import { createLedgerMetrics } from '../ledger-metrics.ts';
import { missingRanges, type EventRange } from '../missing-ranges.ts';
import { enterStream } from './enter-stream.ts';
import { toLedgerFailure } from './failures.ts';
import { migrateStream } from './migrate.ts';
import { OLD_SCHEMA, takeOldStream } from './old-tables.ts';
import { PostgresLedger } from './postgres-ledger.ts';
import { PostgresRollups } from './postgres-rollups.ts';
import { createReaders, type Readers } from './readers.ts';
import { createRetention } from './retention.ts';
import { schemaOf } from './schema-name.ts';
import { openSession } from './session.ts';
import type { StreamContents } from './state.ts';
import { copyToStream } from './stream-copy.ts';
import { StreamStore } from './stream-store.ts';

export interface PostgresLedgerOptions extends StreamName {
  readonly database: LedgerDatabase;
  readonly durability: LedgerDurability;
  /** RETENTION, milliseconds. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry?: Registry;
  /** Time without an answer after which the connection counts as lost; 30 seconds by default. */
  readonly answerMs?: number;
}

const ANSWER_MS = 30_000;

/**
 * Opens the stream of a cluster and creates its schema if it is missing. This process is the writer
 * from now on, and the previous one is `fenced`. `invalid`: the database cannot be used; the
 * message says why.
 */
export async function openPostgresLedger(
  options: PostgresLedgerOptions,
): Promise<OpenLedgerOutcome> {
  const { host, port, name } = options.database;
  const readers = createReaders(options.database);
  try {
    const owner = `${hostname()} ${randomUUID()}`;
    await copyOldStream(options, readers);
    const contents = await enter(options, owner);
    return { ...build(options, owner, contents, readers), epoch: contents.state.epoch };
  } catch (error) {
    await readers.end();
    return toLedgerFailure(`${host}:${port}/${name}`, error);
  }
}

/** Copies the stream from an earlier release's tables, once. Continues an interrupted copy. */
async function copyOldStream(options: PostgresLedgerOptions, { query }: Readers): Promise<void> {
  const { source, logger } = options;
  const schema = schemaOf(source);
  const [known] = await query({
    text: 'select to_regclass($1) is not null as present',
    values: [`${schema}.stream`],
  });
  if (known?.['present'] === 't') {
    const [row] = await query({ text: `select copied_from from ${schema}.stream` });
    if (row !== undefined && row['copied_from'] !== OLD_SCHEMA) return;
  }
  const origin = await takeOldStream(query, source, schema);
  if (origin === undefined) return;
  logger.info(`[ledger] copying the stream into the schema ${schema}: ${origin.head} events`);
  const report = await copyToStream({ ...options, startsOver: false }, origin, ({ copied, of }) =>
    logger.info(`[ledger] copied ${copied} of ${of} events`),
  );
  logger.info(`[ledger] the stream is copied into the schema ${schema}`, { ...report });
}

async function enter(options: PostgresLedgerOptions, owner: string): Promise<StreamContents> {
  const { database, answerMs = ANSWER_MS, retentionMs, clock, source, region } = options;
  const schema = schemaOf(source);
  const session = await openSession(database, answerMs);
  try {
    await migrateStream(session, schema);
    const beginning = { retentionMs, createdAt: clock.now() };
    return await enterStream(session, schema, { source, region, owner }, beginning);
  } finally {
    await session.end();
  }
}

/** The deleted range, the stored ranges and the end. */
function rangesOf({ state, segments }: StreamContents): readonly EventRange[] {
  const { head, lowWater } = state;
  const deleted = { firstSequence: 1, lastSequence: lowWater };
  return [deleted, ...segments, { firstSequence: head + 1, lastSequence: head }];
}

function build(
  options: PostgresLedgerOptions,
  owner: string,
  contents: StreamContents,
  readers: Readers,
): Extract<OpenLedgerOutcome, { readonly kind: 'opened' }> {
  const { logger, answerMs = ANSWER_MS } = options;
  const schema = schemaOf(options.source);
  const metrics = createLedgerMetrics(options.registry);
  const problems = new Problems(logger);
  for (const text of missingRanges(rangesOf(contents))) problems.add(text);
  let lastLogged: string | undefined;
  const store = new StreamStore({
    ...options,
    schema,
    owner,
    contents,
    answerMs,
    query: readers.query,
    onError: ({ cause, message }: LedgerFailure) => {
      if (cause === 'corrupt') problems.add(message);
      // Callers retry, and each attempt would log the same.
      else if (message !== lastLogged) logger.error(`[ledger] ${message}`, { cause });
      lastLogged = message;
    },
    onConflict: (event) => {
      metrics.conflict();
      logger.warn('[ledger] an event has the id of a stored one and differs from it', {
        id: event.id,
        quantity: event.quantity,
      });
    },
  });
  const { query } = readers;
  const onClose = () => readers.end();
  const retain = createRetention(schema, store, query, logger);
  const components = { store, query, problems, metrics, retain, onClose };
  return {
    kind: 'opened',
    ledger: new PostgresLedger({ ...options, ...components }),
    rollups: new PostgresRollups(schema, readers, (statements) => store.run(statements)),
  };
}
