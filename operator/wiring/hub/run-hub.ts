import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Registry } from 'prom-client';
import { ledgerUrls } from '../../config/parsers/ledger-url.ts';
import { problemText } from '../../config/parsers/parser.ts';
import type { LedgerDatabase, Settings, SettingsStore } from '../../config/settings.ts';
import { createSettingsStore } from '../../config/settings-store.ts';
import { Customers } from '../../fleet/customers.ts';
import { createFleetLedger, createFleetTotals } from '../../fleet/fleet-ledger.ts';
import { Connection } from '../../kubernetes/connection.ts';
import { LeaderLabel } from '../../kubernetes/leader-label.ts';
import { HttpFront } from '../../http/front.ts';
import { DEFAULT_LIMITS } from '../../http/limits.ts';
import { createHttpServer } from '../../http/server.ts';
import { createStandbyAnswers } from '../../http/standby.ts';
import type { ReadinessCheck } from '../../http/views.ts';
import { createFleetDatabase } from '../../ledger/postgres/fleet-database.ts';
import { HubLease } from '../../ledger/postgres/hub-lease.ts';
import { errorText } from '../../model/error-text.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import { createOutbound } from '../../outbound/outbound.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { createRegistry } from '../../telemetry/registry.ts';
import type { Scrubber } from '../../telemetry/scrubber.ts';
import { exportTelemetry } from '../otlp.ts';
import { aborted, inTime, type Part, type PartsEnd, runParts } from '../parts.ts';
import { createFleetMetrics } from './fleet-metrics.ts';
import { FleetRegistry } from './fleet-registry.ts';
import { backlogOfAll, destinationsOfAll, fleetViews } from './fleet-views.ts';
import type { HubContext } from './hub-context.ts';
import {
  createHubDestinations,
  type HubCluster,
  type HubDestinations,
  NO_DESTINATIONS,
} from './hub-destinations.ts';
import { createHubStreams, type HubDatabase, type HubStreams } from './hub-streams.ts';

export interface HubOptions {
  readonly version: string;
  readonly environment: Settings;
  /** Which process this is. */
  readonly instance: string;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly scrubber: Scrubber;
  /** Whose BillingDestinations hold beside the destinations of the environment; it may do without one. */
  readonly cluster?: HubCluster;
  /** The name of the pod that this process runs in, where it runs in one of that cluster. */
  readonly pod?: string;
}

type HubDatabases = readonly [HubDatabase, ...HubDatabase[]];

/** What stays while this process stands by, leads, and stands by again. */
interface Process {
  readonly databases: HubDatabases;
  readonly registry: Registry;
  readonly front: HttpFront;
}

/** A database that has answered within this time is reached; a leader answers requests for so long without it. */
const REACHED_MS = 60_000;
const ANSWERS_MS = 30_000;
/** How long an API server that does not answer keeps a process from stepping down. */
const LABEL_MS = 3_000;

/**
 * Runs a hub until the signal is aborted or a part cannot go on: it stands by, and works while this process leads in the first
 * database (docs/fleet.md#one-process-leads).
 */
export async function runHub(options: HubOptions, stopping: AbortSignal): Promise<PartsEnd> {
  const { environment, clock, logger, scrubber, version } = options;
  const found = await databasesOf(environment.ledger);
  if (found.kind === 'failed') return found;
  for (const database of found.databases) scrubber.learn(database);
  const [home, ...further] = found.databases;
  const databases = [
    hubDatabase(options, home),
    ...further.map((one) => hubDatabase(options, one)),
  ] as const;
  const [first] = databases;
  const registry = createRegistry({ version });
  const idle = createStandbyAnswers({
    readiness: () => standbyReadiness(first, clock),
    metrics: registry,
    logger,
    clock,
  });
  const front = new HttpFront({ metrics: registry, logger, limits: DEFAULT_LIMITS, idle });
  try {
    await front.listen(environment.http);
    // The pod may have it from an earlier process.
    await labelled(options, (label) => label.remove(AbortSignal.timeout(LABEL_MS)));
    await first.lease.run(stopping, (epoch, signal) =>
      lead(options, { databases, registry, front }, epoch, signal, stopping),
    );
    return { kind: 'stopped' };
  } catch (error) {
    return { kind: 'failed', reason: errorText(error) };
  } finally {
    await front.close();
  }
}

/** Works on the label by which a Service finds the leader, where this process runs in a pod. */
async function labelled(
  { cluster, pod, clock, logger }: HubOptions,
  work: (label: LeaderLabel) => Promise<void>,
): Promise<void> {
  if (cluster === undefined || pod === undefined) return;
  const { kubeConfig, namespace } = cluster;
  const connection = new Connection(kubeConfig);
  await work(new LeaderLabel({ connection, namespace, pod, clock, logger }));
  await connection.close();
}

function hubDatabase(options: HubOptions, database: LedgerDatabase): HubDatabase {
  const { environment, instance, clock, logger } = options;
  const { retentionMs, durability } = environment.ledger;
  return {
    database: createFleetDatabase({ database, durability, retentionMs, clock, logger }),
    lease: new HubLease({ database, owner: `${instance} ${randomUUID()}`, clock, logger }),
  };
}

function standbyReadiness({ lease }: HubDatabase, clock: Clock): readonly ReadinessCheck[] {
  const { at, problem } = lease.seen;
  const ok = clock.monotonic() - at < REACHED_MS;
  return [{ name: 'database', ok, detail: ok ? 'reached' : problem || 'it is being asked' }];
}

/** Works as the leader until the signal is aborted. Rejects where it cannot go on, or does not end in time. */
async function lead(
  options: HubOptions,
  process: Process,
  epoch: number,
  signal: AbortSignal,
  stopping: AbortSignal,
): Promise<void> {
  const { clock, logger } = options;
  const parts = await buildHub(options, process, epoch, () => !signal.aborted);
  const work = (leading: AbortSignal) => runParts(parts, leading, { clock, logger });
  const end = await inTime(work, signal, { signal: stopping, clock });
  if (end.kind === 'failed') throw new Error(end.reason);
  if (!stopping.aborted) logger.warn('[hub] another process leads: this one stands by');
}

type FoundDatabases =
  | { readonly kind: 'found'; readonly databases: readonly [LedgerDatabase, ...LedgerDatabase[]] }
  | { readonly kind: 'failed'; readonly reason: string };

async function databasesOf(settings: Settings['ledger']): Promise<FoundDatabases> {
  const { database, furtherDatabases = [], databaseFile } = settings;
  if (database !== undefined) return { kind: 'found', databases: [database, ...furtherDatabases] };
  if (databaseFile === undefined) return { kind: 'failed', reason: 'LEDGER_URL: not set' };
  try {
    const parsed = ledgerUrls().parse(await readFile(databaseFile, 'utf8'));
    if (parsed.kind === 'value') return { kind: 'found', databases: parsed.value };
    return { kind: 'failed', reason: problemText('LEDGER_URL_FILE', parsed, databaseFile) };
  } catch (error) {
    return { kind: 'failed', reason: `LEDGER_URL_FILE: cannot be read: ${errorText(error)}` };
  }
}

async function buildHub(
  options: HubOptions,
  { databases, registry: own, front }: Process,
  epoch: number,
  running: () => boolean,
): Promise<readonly Part[]> {
  const { environment, clock, logger, version, scrubber } = options;
  const settings = createSettingsStore(environment);
  settings.subscribe((next) => scrubber.learn(next));
  const [{ database, lease }] = databases;
  const mayAct = (): boolean => lease.isTrusted();
  const streams: HubStreams = createHubStreams(databases, () => context);
  const registry = new FleetRegistry(own, () => streams.units());
  const outbound = createOutbound({ registry, clock, userAgent: `meterfeed/${version}` });
  const telemetry = await exportTelemetry({ ...options, registry }, outbound);
  const destinations = destinationsOf(options, { settings, registry, streams, mayAct });
  const context: HubContext = {
    ...options,
    settings,
    registry,
    outbound,
    destinations,
    customers: new Customers(database.customers(epoch), mayAct),
    allAsked: (signal) => streams.allAsked(signal),
    merged: (tenant) => streams.merged(tenant),
    ...omitUndefined({ tracer: telemetry.tracer }),
  };
  createFleetMetrics(registry, streams);
  const http = createHttpServer({
    clock,
    logger,
    version,
    views: {
      ...fleetViews(streams, { settings, destinations, running }),
      leads: () => lease.isTrusted(ANSWERS_MS),
    },
    ledger: createFleetLedger(() => streams.units()),
    metrics: registry,
    front,
    fleet: {
      totals: createFleetTotals(() => streams.units()),
      streams: () => streams.units(),
    },
  });
  return [
    ...telemetry.parts,
    {
      name: 'HTTP server',
      run: async (signal) => {
        await http.listen(signal);
        await aborted(signal);
        await http.close();
      },
    },
    ...destinations.parts,
    { name: 'streams', run: (signal) => streams.run(epoch, signal) },
    {
      name: 'label',
      run: (signal) =>
        labelled(options, async (label) => {
          await label.set(signal);
          await aborted(signal);
          await label.remove(AbortSignal.timeout(LABEL_MS));
        }).then(() => aborted(signal)),
    },
  ];
}

function destinationsOf(
  options: HubOptions,
  {
    settings,
    registry,
    streams,
    mayAct,
  }: {
    readonly settings: SettingsStore;
    readonly registry: Registry;
    readonly streams: HubStreams;
    readonly mayAct: () => boolean;
  },
): HubDestinations {
  if (options.cluster === undefined) return NO_DESTINATIONS;
  return createHubDestinations(options.cluster, {
    ...options,
    settings,
    registry,
    mayAct,
    delivery: {
      list: () =>
        destinationsOfAll(streams.units()).flatMap(({ cursorWindowEnd, ...status }) =>
          // Of what cannot start the controllers know more than delivery does.
          status.problem?.inForce === false
            ? []
            : [{ ...status, ...omitUndefined({ windowEnd: cursorWindowEnd }) }],
        ),
      backlog: (name) =>
        backlogOfAll(streams.units().flatMap((unit) => unit.delivery.status(name)?.backlog ?? [])),
    },
    reserve: async () => {
      const outcomes = await Promise.all(streams.units().map(({ delivery: one }) => one.reserve()));
      return outcomes.find(({ kind }) => kind === 'failed') ?? { kind: 'written' };
    },
    retire: async (destination) => {
      for (const unit of streams.units()) {
        const outcome = await unit.retire(destination);
        if (outcome.kind === 'failed') {
          return { kind: 'failed', reason: `${unit.source}: ${outcome.message}` };
        }
      }
      return { kind: 'retired' };
    },
  });
}
