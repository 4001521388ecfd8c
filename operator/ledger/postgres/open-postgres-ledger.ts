import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Registry } from 'prom-client';
import type { LedgerDatabase, LedgerDurability } from '../../config/settings.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { createProblems } from '../failures.ts';
import type { StreamName } from '../fleet.ts';
import type { LedgerFailure, OpenLedgerOutcome, Replica } from '../ledger.ts';
import { createLedgerMetrics } from '../ledger-metrics.ts';
import { missingRanges, type SequenceRange } from '../missing-ranges.ts';
import { type LeaseTeam, replicaName } from '../leases.ts';
import { toLedgerFailure } from './failures.ts';
import { HUB } from './fences.ts';
import { createPostgresLeases } from './leases.ts';
import { migrate } from './migrate.ts';
import type { Look } from './poll.ts';
import { createPostgresLedger } from './postgres-ledger.ts';
import { createReaders, type Readers } from './readers.ts';
import { enterStream, type Entry } from './register.ts';
import { SeriesCache } from './series-cache.ts';
import { openSession } from './session.ts';
import type { Contents } from './state.ts';
import { createStore } from './store.ts';

export interface PostgresLedgerOptions extends StreamName {
  readonly database: LedgerDatabase;
  readonly durability: LedgerDurability;
  /** RETENTION, milliseconds. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry?: Registry;
  /**
   * `lead`, the default: from the beginning this process is the meter. `join`: it is one of several, and the meter only
   * when it is told to lead.
   */
  readonly entry?: Entry;
  /** Where the other processes reach this one, for one that joins. */
  readonly address?: string;
  /** With whom one that joins shares leases; by default the operators. */
  readonly team?: LeaseTeam;
  /** Of a hub: the epoch with which it leads. It never leads the stream, and what it writes is fenced by the epoch. */
  readonly hub?: number;
  /** How one that joins learns what the others write, where it is not to look for itself. */
  readonly look?: Look;
  /** How long the server may take to answer before the connection counts as lost; by default 30 seconds. */
  readonly answerMs?: number;
}

const ANSWER_MS = 30_000;

/**
 * Opens a stream of a database, or sets both up where they are missing. Unless it only joins, this process is
 * the meter from then on, and the one before is `fenced`. `invalid`: the database cannot be used as it is; the message says why.
 */
export async function openPostgresLedger(
  options: PostgresLedgerOptions,
): Promise<OpenLedgerOutcome> {
  const { host, port, name } = options.database;
  const readers = createReaders(options.database);
  try {
    const owner = `${hostname()} ${randomUUID()}`;
    const contents = await enter(options, owner);
    return { kind: 'opened', ...build(options, owner, contents, readers) };
  } catch (error) {
    await readers.end();
    return toLedgerFailure(`${host}:${port}/${name}`, error);
  }
}

async function enter(options: PostgresLedgerOptions, owner: string): Promise<Contents> {
  const { database, answerMs = ANSWER_MS, retentionMs, clock } = options;
  const session = await openSession(database, answerMs);
  try {
    await migrate(session);
    return await enterStream(session, options, owner, retentionMs, clock.now(), entryOf(options));
  } finally {
    await session.end();
  }
}

function entryOf({ entry = 'lead', hub }: Pick<PostgresLedgerOptions, 'entry' | 'hub'>): Entry {
  return hub === undefined ? entry : 'join';
}

/** What was deleted, what is stored, and the end. */
function rangesOf({ state, segments }: Contents): readonly SequenceRange[] {
  const { head, lowWater } = state;
  const deleted = { firstSequence: 1, lastSequence: lowWater };
  return [deleted, ...segments, { firstSequence: head + 1, lastSequence: head }];
}

function build(
  options: PostgresLedgerOptions,
  owner: string,
  contents: Contents,
  readers: Readers,
): Omit<Extract<OpenLedgerOutcome, { kind: 'opened' }>, 'kind'> {
  const { database, durability, clock, logger, hub, address = '' } = options;
  const entry = entryOf(options);
  const { answerMs = ANSWER_MS, team = 'operators' } = options;
  const metrics = createLedgerMetrics(options.registry);
  const problems = createProblems(logger);
  for (const text of missingRanges(rangesOf(contents))) problems.add(text);
  let told: string | undefined;
  const onError = ({ cause, message }: LedgerFailure): void => {
    if (cause === 'corrupt') problems.add(message);
    // Whoever is refused tries again, and would tell the same each time.
    else if (message !== told) logger.error(`[ledger] ${message}`, { cause });
    told = message;
  };
  const store = createStore({
    database,
    durability,
    owner,
    epoch: entry === 'lead' ? contents.state.epoch : undefined,
    contents,
    series: new SeriesCache(),
    reads: readers,
    clock,
    answerMs,
    onError,
    onConflict: (event) => {
      metrics.conflict();
      logger.warn('[ledger] an event has the id of a stored one and differs from it', {
        id: event.id,
        quantity: event.quantity,
      });
    },
  });
  const shared = entry === 'join';
  const ledgerBy = createPostgresLedger({ ...options, store, readers, problems, metrics, shared });
  const ledger = ledgerBy('meter');
  if (hub !== undefined) return { ledger: ledgerBy({ name: HUB, epoch: hub }) };
  if (!shared) return { ledger, epoch: contents.state.epoch };
  const leases = createPostgresLeases({
    database,
    stream: contents.state.stream,
    owner,
    team,
    address,
    clock,
    logger,
  });
  const replica: Replica = {
    lead: async () => (await store.lead(options.region)) ?? { kind: 'written' },
    open: ledgerBy('anybody'),
    heldBy: async (lease) => (await store.refresh()) ?? { kind: 'held', ledger: ledgerBy(lease) },
    leases,
    isMeter: () => store.contents().state.owner === owner,
    meterAddress: () => leases.addressOf(replicaName(store.contents().state.owner, 'operators')),
  };
  return { ledger, replica };
}
