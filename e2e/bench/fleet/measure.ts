import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type PostgresServer,
  startPostgres,
} from '../../../operator/ledger/testing/postgres-server.ts';
import { formatInstant } from '../../../operator/model/window.ts';
import { databaseUrl } from '../../../operator/app/hub/testing/fleet-world.ts';
import { type RunningOperator, startOperator } from '../../local/operator-process.ts';
import { runFiles } from '../../local/run-directory.ts';
import { shippedHub, shippedProcess } from '../../local/stateful-set.ts';
import { quantile } from '../quantile.ts';
import { WINDOW_MS } from './meter.ts';
import { type BenchMeters, type Closed, startBenchMeters } from './meters.ts';
import { residentBytes } from '../../processes/memory.ts';
import { processorSeconds } from './processor-time.ts';
import { type BenchReceiver, startBenchReceiver } from './receiver.ts';

export interface FleetPlan {
  readonly streams: number;
  readonly tenants: number;
  readonly metrics: number;
  /** Windows of a minute. */
  readonly minutes: number;
  /** Over which the clusters close a window, one after the other; 0 where all do at once. */
  readonly spreadMs: number;
  readonly seed: number;
  /** Of the hub, instead of what the installation gives it. */
  readonly heapMiB?: number;
}

export interface FleetFigures {
  /** Windows of which every event was delivered before the next one ended. */
  readonly keptUp: number;
  readonly windows: number;
  /** From the end of each window until its last event was acknowledged; those that were not delivered whole left out. */
  readonly windowSeconds: readonly number[];
  /** From the end of a window until a stream's batch is acknowledged, over streams and windows. */
  readonly appendP99Seconds: number;
  /** From that acknowledgment until the receiver's, over events. */
  readonly lagP50Seconds: number;
  readonly lagP99Seconds: number;
  /** From the end of the window until the receiver's acknowledgment, over events. */
  readonly fromWindowEndP99Seconds: number;
  /** Events of a window ÷ the time from its end to the last acknowledgment, half of the windows being slower. */
  readonly eventsPerSecond: number;
  /** Seconds for 1,000 events, what is done without any event included. */
  readonly databasePerThousand: number;
  readonly hubPerThousand: number;
  /** Seconds in a minute without events. */
  readonly idleDatabasePerMinute: number;
  readonly idleHubPerMinute: number;
  /** What the database grew by for an event. */
  readonly bytesPerEvent: number;
  readonly connections: number;
  readonly hubMiB: number;
  /** Until all tenants were customers and had their first event, a tenant a row. */
  readonly provisioningSeconds: number;
  /** Events that came more or less often than once. */
  readonly lost: number;
  readonly twice: number;
}

const SETTINGS = [
  'fsync = on',
  'full_page_writes = on',
  'shared_buffers = 256MB',
  'max_wal_size = 4GB',
  'max_connections = 1000',
];
/** Events are made while nothing else is to be done. */
const PREPARE_MS = 12_000;
const IDLE_MS = 20_000;
/** After which the hub has summed what came before. */
const SUMMED_MS = 35_000;
const PATIENCE_MS = 15 * 60_000;
const LAST_WORD_MS = 180_000;

/** A server, a hub, a receiver and the meters of so many clusters, all on this machine. */
export async function measureFleet(plan: FleetPlan): Promise<FleetFigures> {
  const started = new AsyncDisposableStack();
  try {
    const server = await startPostgres({ settings: SETTINGS });
    started.defer(() => server.stop());
    const receiver = await startBenchReceiver();
    started.defer(() => receiver.stop());
    const database = await server.createDatabase();
    const { streams, tenants, metrics, seed } = plan;
    const meters = await startBenchMeters({ database, streams, tenants, metrics, seed });
    started.defer(() => meters.stop());
    const directory = await mkdtemp(join(tmpdir(), 'meterfeed-fleet-'));
    started.defer(() => rm(directory, { recursive: true, force: true }));
    const hub = await startOperator({
      files: runFiles(directory),
      kubeconfig: '',
      env: {
        ...memoryOf(plan),
        ROLE: 'hub',
        CLUSTER_NAME: 'hub',
        LEDGER_URL: databaseUrl(database),
        LEDGER_DURABILITY: 'storage',
        ADAPTERS: 'webhook',
        DESTINATIONS_START_FROM: 'earliest',
        WEBHOOK_URL: receiver.url,
      },
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    started.defer(() => hub.stop());
    return await measure(plan, { server, database: database.name, hub, receiver, meters });
  } finally {
    await started.disposeAsync();
  }
}

/** What the hub's process may take, as the installation says where nobody says another. */
function memoryOf({ heapMiB }: FleetPlan): Readonly<Record<string, string>> {
  const shipped = { ...shippedProcess().environment, ...shippedHub().environment };
  const memory = Object.entries(shipped).filter(
    ([name]) => name === 'NODE_OPTIONS' || name.startsWith('MALLOC_'),
  );
  // The last word counts.
  const options = `${shipped['NODE_OPTIONS']} --max-old-space-size=${heapMiB}`;
  return {
    ...Object.fromEntries(memory),
    ...(heapMiB !== undefined && { NODE_OPTIONS: options }),
  };
}

interface Fleet {
  readonly server: PostgresServer;
  readonly database: string;
  readonly hub: RunningOperator;
  readonly receiver: BenchReceiver;
  readonly meters: BenchMeters;
}

async function measure(plan: FleetPlan, fleet: Fleet): Promise<FleetFigures> {
  const { server, database, hub, receiver, meters } = fleet;
  const perWindow = plan.streams * plan.tenants * plan.metrics;
  const provisioningSeconds = await provision(fleet, perWindow);
  const seconds = () => ({
    database: processorSeconds(server.pid),
    hub: processorSeconds(hub.pid),
  });
  const bytes = async (): Promise<number> => {
    const [row] = await server.query(`select pg_database_size('${database}') as bytes`);
    return Number(row?.['bytes']);
  };
  await delay(SUMMED_MS);
  const rested = seconds();
  await delay(IDLE_MS);
  const before = seconds();
  const bytesBefore = await bytes();
  const idle = (part: 'database' | 'hub') => ((before[part] - rested[part]) * 60_000) / IDLE_MS;

  const already = receiver.delivered.length;
  const begun = Math.ceil((Date.now() + PREPARE_MS) / 1_000) * 1_000;
  const closed: Closed[] = [];
  let connections = 0;
  for (let window = 0; window < plan.minutes; window++) {
    const end = begun + window * WINDOW_MS;
    await delay(Math.max(0, end - PREPARE_MS - Date.now()));
    await meters.prepare(end);
    await delay(Math.max(0, end - Date.now()));
    connections = Math.max(connections, await connectionsTo(server, database));
    closed.push(...(await meters.close(end, plan.spreadMs)));
  }
  const until = Date.now() + LAST_WORD_MS;
  const events = perWindow * plan.minutes;
  const arrived = () => receiver.delivered.slice(already).reduce((sum, one) => sum + one.events, 0);
  while (arrived() < events && Date.now() < until) await delay(500);
  // What the last minute would have cost without events belongs to it, too.
  await delay(Math.max(0, begun + plan.minutes * WINDOW_MS - Date.now()));
  const after = seconds();
  const grown = (await bytes()) - bytesBefore;
  return {
    ...figuresOf(plan, closed, receiver.delivered.slice(already)),
    databasePerThousand: ((after.database - before.database) * 1_000) / events,
    hubPerThousand: ((after.hub - before.hub) * 1_000) / events,
    idleDatabasePerMinute: idle('database'),
    idleHubPerMinute: idle('hub'),
    bytesPerEvent: grown / events,
    connections,
    hubMiB: residentBytes(hub.pid, 'VmRSS') / 1024 ** 2,
    provisioningSeconds,
  };
}

/** Has the first window of every tenant delivered, with which each becomes a customer. Gives how long that took. */
async function provision({ meters, receiver }: Fleet, events: number): Promise<number> {
  const from = Date.now();
  const end = Math.floor(from / 1_000) * 1_000 - WINDOW_MS;
  await meters.prepare(end);
  await meters.close(end, 0);
  while (receiver.total() < events) {
    if (Date.now() - from > PATIENCE_MS) {
      throw new Error(`fleet: ${receiver.total()} of ${events} events of the first window came`);
    }
    await delay(250);
  }
  return (Date.now() - from) / 1_000;
}

async function connectionsTo(server: PostgresServer, database: string): Promise<number> {
  const [row] = await server.query(
    `select count(*) as n from pg_stat_activity where datname = '${database}'`,
  );
  return Number(row?.['n']);
}

function figuresOf(
  { streams, tenants, metrics, minutes }: FleetPlan,
  closed: readonly Closed[],
  delivered: BenchReceiver['delivered'],
): Pick<
  FleetFigures,
  | 'keptUp'
  | 'windows'
  | 'windowSeconds'
  | 'appendP99Seconds'
  | 'lagP50Seconds'
  | 'lagP99Seconds'
  | 'fromWindowEndP99Seconds'
  | 'eventsPerSecond'
  | 'lost'
  | 'twice'
> {
  const batches = new Map(
    closed.map((one) => [`${one.source} ${formatInstant(one.end - WINDOW_MS)}`, one]),
  );
  const lags: Weighted[] = [];
  const fromEnd: Weighted[] = [];
  const counts = new Map<string, number>();
  const lastAt = new Map<number, number>();
  for (const { source, windowStart, events, at } of delivered) {
    const key = `${source} ${windowStart}`;
    const batch = batches.get(key);
    if (batch === undefined) continue;
    // It may be read before the meter has heard that it is stored.
    lags.push({ value: Math.max(0, at - batch.at) / 1_000, weight: events });
    fromEnd.push({ value: (at - batch.end) / 1_000, weight: events });
    counts.set(key, (counts.get(key) ?? 0) + events);
    lastAt.set(batch.end, Math.max(at, lastAt.get(batch.end) ?? 0));
  }
  const perStream = tenants * metrics;
  const missing = [...batches.keys()].map((key) => perStream - (counts.get(key) ?? 0));
  const incomplete = new Set(
    [...batches].flatMap(([key, { end }]) => ((counts.get(key) ?? 0) < perStream ? [end] : [])),
  );
  const took = [...lastAt].flatMap(([end, at]) => (incomplete.has(end) ? [] : [at - end]));
  return {
    windows: minutes,
    windowSeconds: took.map((ms) => ms / 1_000),
    keptUp: took.filter((ms) => ms < WINDOW_MS).length,
    appendP99Seconds: quantile(
      closed.map(({ at, end }) => (at - end) / 1_000),
      0.99,
    ),
    lagP50Seconds: weightedQuantile(lags, 0.5),
    lagP99Seconds: weightedQuantile(lags, 0.99),
    fromWindowEndP99Seconds: weightedQuantile(fromEnd, 0.99),
    eventsPerSecond: (streams * perStream * 1_000) / quantile(took, 0.5),
    lost: missing.reduce((sum, count) => sum + Math.max(0, count), 0),
    twice: missing.reduce((sum, count) => sum + Math.max(0, -count), 0),
  };
}

interface Weighted {
  readonly value: number;
  readonly weight: number;
}

function weightedQuantile(values: readonly Weighted[], share: number): number {
  const sorted = values.toSorted((a, b) => a.value - b.value);
  const total = sorted.reduce((sum, { weight }) => sum + weight, 0);
  let passed = 0;
  for (const { value, weight } of sorted) {
    passed += weight;
    if (passed >= share * total) return value;
  }
  return Number.NaN;
}
