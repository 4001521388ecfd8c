import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { LedgerDatabase, Role } from '../../../settings/settings.ts';
import { type MeterFacts, reportMeter } from '../../fleet/meter-report.ts';
import type { Cursor, Ledger } from '../../../ledger/ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent } from '../../../ledger/testing/events.ts';
import { createReaders } from '../../../ledger/postgres/readers.ts';
import { schemaOf } from '../../../ledger/postgres/schema-name.ts';
import type { DatabaseRow } from '../../../ledger/postgres/session.ts';
import { cursorOf } from '../../../ledger/postgres/state.ts';
import { openTestStream } from '../../../ledger/testing/postgres-ledger.ts';
import { deriveEventId } from '../../../model/event-id.ts';
import type { UsageEvent } from '../../../model/event.ts';
import { isRecord } from '../../../model/is-record.ts';
import type { Tenant } from '../../../model/tenant.ts';
import { systemClock } from '../../../telemetry/system-clock.ts';
import { createMemoryLogger } from '../../../telemetry/testing/memory-logger.ts';
import type { OwnCluster } from '../../run-process.ts';
import { type OperatorProcess, startOperator } from '../../testing/operator-process.ts';

/** What the meter of a stream would do, as far as a hub sees it. */
export interface PlayedMeter {
  readonly ledger: Ledger;
  /** Those of hubs on the stream. */
  cursors(): Promise<readonly Cursor[]>;
  /** How many records hubs have under a prefix. */
  hubRecords(prefix: string): Promise<number>;
  /** Discovery knows these tenants from now on, and no others. */
  setTenants(...tenants: Tenant[]): Promise<void>;
  /** No more usage of a tenant will come. */
  leave(tenant: Tenant): Promise<void>;
  stop(): Promise<void>;
}

export interface MeterNames {
  readonly source: string;
  readonly region: string;
  readonly role?: Role;
  /** Destinations that it feeds itself. */
  readonly ownDestinations?: readonly string[];
}

/** Usage of a tenant in a window, in the region of a cluster. */
export function usageOf(tenant: string, region: string, window = 0): UsageEvent {
  const { id: _, ...event } = testEvent({
    tenant,
    windowStart: TEST_WINDOW_START + window * TEST_WINDOW_MS,
    quantity: '0.5',
  });
  const moved = { ...event, region };
  return { ...moved, id: deriveEventId(moved) };
}

/** Registers a stream, and tells of it as a meter does. */
export async function playMeter(
  database: LedgerDatabase,
  { source, region, role = 'meter', ownDestinations = [] }: MeterNames,
): Promise<PlayedMeter> {
  const ledger = await openTestStream(database, { source, region });
  let tenants: readonly Tenant[] = [];
  let passes = 0;
  let leavings = 0;
  const report = (): MeterFacts => ({
    version: '1.2.3',
    role,
    ready: true,
    waitsFor: [],
    windowMs: 60_000,
    ownDestinations,
    tenants: tenants.length,
    tenantClusters: 0,
    customMetrics: [],
    measuredMetrics: [],
    gaps: 0,
    failedTenantApis: { total: 0, items: [] },
    withoutKubeconfig: { total: 0, items: [] },
    unattributed: { total: 0, items: [], gpuSeconds: 0, gpuObjects: 0 },
    problems: [],
  });
  /** Writes what there is to tell once. */
  const writeReport = async (): Promise<void> => {
    const once = new AbortController();
    await reportMeter(
      {
        ledger,
        report,
        clusters: () => [],
        discoveryPasses: () => passes,
        clock: {
          ...systemClock,
          sleep: async () => {
            once.abort();
          },
        },
        logger: createMemoryLogger(),
      },
      once.signal,
    );
  };
  await writeReport();
  const own = `${schemaOf(source)}/`;
  /** What the hub has in one of its tables under a prefix. */
  const hubRows = async (
    columns: string,
    name: string,
    prefix: string,
  ): Promise<readonly DatabaseRow[]> => {
    const readers = createReaders(database);
    const text = `select ${columns} from meterfeed_hub.${name} where starts_with(${name === 'cursor' ? 'destination' : 'key'}, $1)`;
    const rows = await readers.query({ text, values: [own + prefix] });
    await readers.end();
    return rows;
  };
  return {
    ledger,
    cursors: async () => {
      const name = `substr(destination, ${own.length + 1}) as destination`;
      const rows = await hubRows(`${name}, seq, window_end, retired_at`, 'cursor', '');
      return rows.map(cursorOf);
    },
    hubRecords: async (prefix) => (await hubRows('key', 'record', prefix)).length,
    setTenants: async (...wanted) => {
      const key = (tenant: Tenant) => `discovery/tenant/${tenant.id}`;
      const gone = tenants.filter(({ id }) => !wanted.some((tenant) => tenant.id === id));
      await ledger.writeRecords([
        ...gone.map((tenant) => ({
          key: key(tenant),
          value: JSON.stringify({ tenant, presence: { kind: 'offboarded', at: 1 } }),
        })),
        ...wanted.map((tenant) => ({
          key: key(tenant),
          value: JSON.stringify({ tenant, presence: { kind: 'present' } }),
        })),
      ]);
      tenants = wanted;
      passes += 1;
      await writeReport();
    },
    leave: async (tenant) => {
      const presence = { kind: 'offboarded', at: (leavings += 1), accepted: true };
      await ledger.writeRecords([
        { key: `discovery/tenant/${tenant.id}`, value: JSON.stringify({ tenant, presence }) },
      ]);
      passes += 1;
      await writeReport();
    },
    stop: () => ledger.close(),
  };
}

/** A hub, with what it answers as JSON. */
export interface RunningHub extends Pick<OperatorProcess, 'log' | 'stop'> {
  get(path: string): Promise<{ readonly status: number; readonly json: unknown }>;
  text(path: string): Promise<string>;
}

type HubParameters = readonly [
  databases: readonly LedgerDatabase[],
  environment?: Readonly<Record<string, string>>,
  cluster?: OwnCluster,
  pod?: string,
];

/** Starts a hub as {@link beginHub} does. Resolves when it is ready. */
export async function startHub(...parameters: HubParameters): Promise<RunningHub> {
  const hub = await beginHub(...parameters);
  await hub.answers();
  return hub;
}

/** A whole hub, in a cluster only where one is given. */
export async function beginHub(
  ...[databases, environment = {}, cluster, pod]: HubParameters
): Promise<RunningHub & Pick<OperatorProcess, 'answers'>> {
  const process = await startOperator({
    cluster,
    environment: {
      ROLE: 'hub',
      CLUSTER_NAME: 'hub',
      REGION: 'none',
      LEDGER_URL: databases.map(databaseUrl).join(','),
      LEDGER_DURABILITY: 'storage',
      ...environment,
    },
    instance: `hub-${randomUUID()}`,
    pod,
  });
  return {
    ...process,
    get: async (path) => {
      const response = await process.call('GET', path);
      return { status: response.status, json: await response.json() };
    },
    text: async (path) => (await process.get(path)).text,
  };
}

/** As LEDGER_URL has it. */
export function databaseUrl({ host, port, name, user }: LedgerDatabase): string {
  return `postgresql://${user}@${host}:${port}/${name}?sslmode=disable`;
}

/** What came to a webhook: one line for each CloudEvent. */
export interface Received {
  readonly url: string;
  /** `<source> <type> <subject>`, in the order of arrival. */
  readonly events: readonly string[];
  /** The path that each of them was sent to. */
  readonly paths: readonly string[];
  /** The id of each of them. */
  readonly ids: readonly string[];
  stop(): Promise<void>;
}

export async function startReceiving(): Promise<Received> {
  const events: string[] = [];
  const paths: string[] = [];
  const ids: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body: unknown = JSON.parse(Buffer.concat(chunks).toString());
      const items: readonly unknown[] = Array.isArray(body) ? body : [body];
      for (const event of items) {
        if (!isRecord(event)) continue;
        events.push([event['source'], event['type'], event['subject']].join(' '));
        paths.push(request.url ?? '');
        ids.push(String(event['id']));
      }
      response.writeHead(200).end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    events,
    paths,
    ids,
    stop: () => new Promise((resolve) => void server.close(() => resolve())),
  };
}
