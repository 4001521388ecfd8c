import type { LedgerDatabase, LedgerDurability } from '../../settings/settings.ts';
import { errorText } from '../../model/error-text.ts';
import { override } from '../../model/override.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { Problems, ledgerFailure } from '../failures.ts';
import {
  type FleetDatabase,
  isHubRecord,
  type OpenStreamOutcome,
  type StreamName,
} from '../fleet.ts';
import { type Ledger, type LedgerFailure, LedgerReadError, type RecordChange } from '../ledger.ts';
import { createLedgerMetrics } from '../ledger-metrics.ts';
import { createCustomers } from './customers.ts';
import { toLedgerFailure } from './failures.ts';
import type { FencedWriter } from './fenced-writer.ts';
import { followStreams } from './follow-streams.ts';
import { HubStreamStore, openHubStream } from './hub-stream-store.ts';
import { migrateHub } from './hub-tables.ts';
import { enterHub } from './hub-writer.ts';
import { listStreams } from './list-streams.ts';
import { PostgresLedger } from './postgres-ledger.ts';
import { PostgresRollups } from './postgres-rollups.ts';
import { createReaders, type Readers } from './readers.ts';
import { HUB_SCHEMA, schemaOf } from './schema-name.ts';
import { openSession } from './session.ts';
import type { StreamContents } from './state.ts';

export interface FleetDatabaseOptions {
  readonly database: LedgerDatabase;
  readonly durability: LedgerDurability;
  /** RETENTION of the streams, milliseconds. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Time without an answer after which the connection counts as lost; 30 seconds by default. */
  readonly answerMs?: number;
}

const ANSWER_MS = 30_000;

/** A database with the streams of several clusters, for a hub. Connects at the first request. */
export function createFleetDatabase(options: FleetDatabaseOptions): FleetDatabase {
  return new PostgresFleet(options);
}

class PostgresFleet implements FleetDatabase {
  readonly name: string;
  readonly #options: FleetDatabaseOptions;
  readonly #readers: Readers;
  readonly #open = new Set<HubStreamStore>();
  #isMigrated = false;
  #entered: { readonly epoch: number; readonly writer: Promise<FencedWriter> } | undefined;

  constructor(options: FleetDatabaseOptions) {
    const { host, port, name } = options.database;
    this.name = `${host}:${port}/${name}`;
    this.#options = options;
    this.#readers = createReaders(options.database);
  }

  async streams(): Promise<readonly StreamName[]> {
    try {
      const session = await openSession(this.#options.database, ANSWER_MS);
      try {
        // A hub may start before any operator.
        if (!this.#isMigrated) await migrateHub(session);
        this.#isMigrated = true;
        const streams = await listStreams(session);
        const complete = streams.filter(({ copiedFrom }) => copiedFrom === undefined);
        return withoutEqualRegions(complete, this.#options.logger);
      } finally {
        await session.end();
      }
    } catch (error) {
      throw new Error(`${this.name}: ${errorText(error)}`, { cause: error });
    }
  }

  async open({ source }: StreamName, epoch: number): Promise<OpenStreamOutcome> {
    try {
      return await this.#openStream(source, epoch);
    } catch (error) {
      return toLedgerFailure(this.name, error);
    }
  }

  readonly customers: FleetDatabase['customers'] = (epoch) =>
    createCustomers(() => this.#writer(epoch));

  async #openStream(source: string, epoch: number): Promise<OpenStreamOutcome> {
    const { retentionMs, durability, clock, logger } = this.#options;
    const schema = schemaOf(source);
    const writer = await this.#writer(epoch);
    const contents = await openWith(writer, schema);
    const { query } = this.#readers;
    const stream = new HubStreamStore(schema, writer, query, contents);
    this.#follow(stream, writer);
    const ledger = new PostgresLedger({
      retentionMs,
      durability,
      clock,
      query,
      store: stream,
      problems: new Problems(logger),
      metrics: createLedgerMetrics(undefined),
      retain: async () => undefined,
      onClose: async () => void this.#open.delete(stream),
    });
    const adopt = (destination: string) => stream.adopt(destination);
    const rollups = new PostgresRollups(schema, this.#readers);
    return { kind: 'opened', ledger: asHub(ledger), rollups, adopt };
  }

  /** Starts the loop that serves all streams of the database on one connection. */
  #follow(stream: HubStreamStore, writer: FencedWriter): void {
    const isFirst = this.#open.size === 0;
    this.#open.add(stream);
    if (!isFirst) return;
    const { clock } = this.#options;
    void followStreams(this.#open, this.#readers.query, writer, clock);
  }

  #writer(epoch: number): Promise<FencedWriter> {
    if (this.#entered?.epoch === epoch) return this.#entered.writer;
    const { database, durability, logger, answerMs = ANSWER_MS } = this.#options;
    let lastLogged = '';
    const onError = ({ message, cause }: LedgerFailure): void => {
      if (message !== lastLogged) logger.error(`[hub] ${message}`, { cause });
      lastLogged = message;
    };
    const writer = enterHub({ database, durability, answerMs, onError }, epoch);
    const entered = { epoch, writer };
    this.#entered = entered;
    writer.catch(() => {
      if (this.#entered === entered) this.#entered = undefined;
    });
    return writer;
  }
}

async function openWith(writer: FencedWriter, schema: string): Promise<StreamContents> {
  const outcome = await writer.write<StreamContents>({
    run: async (session) => {
      const contents = await openHubStream(session, schema);
      const text = `update ${HUB_SCHEMA}.writer set last_batch = $1`;
      await session.run([{ text, values: [writer.next().lastBatch] }]);
      // The commit also confirms everything that the operator has written so far.
      return { result: contents, stored: () => undefined };
    },
  });
  if (outcome.kind === 'failed') throw new LedgerReadError(outcome);
  return outcome.result;
}

/** Leaves out all streams that share a REGION, because event ids contain it. */
function withoutEqualRegions(
  streams: readonly StreamName[],
  logger: Logger,
): readonly StreamName[] {
  const groups = Map.groupBy(streams, ({ region }) => region);
  return [...groups].flatMap(([region, group]) => {
    if (group.length === 1) return group.map(({ source }) => ({ source, region }));
    const names = group.map(({ source }) => source).join(', ');
    const text = `REGION: event ids contain it, and several streams have the same: "${region}"`;
    logger.error(`[hub] ${text}; set different ones for ${names}. None of these streams is read`);
    return [];
  });
}

/**
 * Restricts a ledger to the hub's writes. Only the stream's operator appends, and writes records
 * that are not the hub's.
 */
function asHub(ledger: Ledger): Ledger {
  return override<Ledger>(ledger, {
    append: async () => refusal('append: a hub appends nothing to a stream'),
    writeRecords: async (changes) => refuse(changes) ?? ledger.writeRecords(changes),
    commitCursor: async (destination, sequence, commit) =>
      refuse(commit?.records) ?? ledger.commitCursor(destination, sequence, commit),
    compareWith: async () => refusal('anchor: the operator of the stream compares it'),
  });
}

function refuse(changes: readonly RecordChange[] = []): LedgerFailure | undefined {
  const wrong = changes.find(({ key }) => !isHubRecord(key));
  return wrong && refusal(`record: the operator of the stream writes it: "${wrong.key}"`);
}

function refusal(message: string): LedgerFailure {
  return ledgerFailure('invalid', message);
}
