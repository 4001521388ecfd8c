import { readFile } from 'node:fs/promises';
import type { Registry } from 'prom-client';
import { ledgerUrls } from '../../config/parsers/ledger-url.ts';
import { problemText } from '../../config/parsers/parser.ts';
import type { LedgerDatabase, Settings, SettingsStore } from '../../config/settings.ts';
import { createSettingsStore } from '../../config/settings-store.ts';
import { createFleetLedger, createFleetTotals } from '../../fleet/fleet-ledger.ts';
import { createHttpServer } from '../../http/server.ts';
import { createFleetDatabase } from '../../ledger/postgres/fleet-database.ts';
import { errorText } from '../../model/error-text.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import { createOutbound } from '../../outbound/outbound.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { createRegistry } from '../../telemetry/registry.ts';
import type { Scrubber } from '../../telemetry/scrubber.ts';
import { exportTelemetry } from '../otlp.ts';
import { aborted, type Part, type PartsEnd, runParts } from '../parts.ts';
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
import { createHubStreams, type HubStreams } from './hub-streams.ts';

export interface HubOptions {
  readonly version: string;
  readonly environment: Settings;
  /** Which process this is. */
  readonly instance: string;
  /** Where other replicas reach it, `host:port`. */
  readonly address: string;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly scrubber: Scrubber;
  /** Whose BillingDestinations hold beside the destinations of the environment; it may do without one. */
  readonly cluster?: HubCluster;
}

/** Runs a hub until the signal is aborted or a part cannot go on (docs/fleet.md). */
export async function runHub(options: HubOptions, stopping: AbortSignal): Promise<PartsEnd> {
  const { environment, clock, logger, scrubber } = options;
  const found = await databasesOf(environment.ledger);
  if (found.kind === 'failed') return found;
  for (const database of found.databases) scrubber.learn(database);
  const parts = await buildHub(options, found.databases, () => !stopping.aborted);
  return runParts(parts, stopping, { clock, logger });
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
  [home, ...further]: readonly [LedgerDatabase, ...LedgerDatabase[]],
  running: () => boolean,
): Promise<readonly Part[]> {
  const { environment, clock, logger, version, address, scrubber } = options;
  const { retentionMs, durability } = environment.ledger;
  const settings = createSettingsStore(environment);
  settings.subscribe((next) => scrubber.learn(next));
  const registry = createRegistry({ version });
  const outbound = createOutbound({ registry, clock, userAgent: `meterfeed/${version}` });
  const telemetry = await exportTelemetry({ ...options, registry }, outbound);
  const common = { durability, retentionMs, clock, logger, address };
  const first = createFleetDatabase({ ...common, database: home });
  const databases = [
    first,
    ...further.map((database) => createFleetDatabase({ ...common, database })),
  ];
  const streams: HubStreams = createHubStreams(databases, () => context);
  const destinations = destinationsOf(options, { settings, registry, streams });
  const context: HubContext = {
    ...options,
    settings,
    registry,
    outbound,
    destinations,
    customers: first.customers,
    merged: (tenant) => streams.merged(tenant),
    ...omitUndefined({ tracer: telemetry.tracer }),
  };
  createFleetMetrics(registry, streams);
  const http = createHttpServer({
    clock,
    logger,
    version,
    views: fleetViews(streams, { settings, destinations, running }),
    ledger: createFleetLedger(() => streams.units()),
    metrics: new FleetRegistry(registry, () => streams.units()),
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
    { name: 'streams', run: (signal) => streams.run(signal) },
  ];
}

function destinationsOf(
  options: HubOptions,
  {
    settings,
    registry,
    streams,
  }: {
    readonly settings: SettingsStore;
    readonly registry: Registry;
    readonly streams: HubStreams;
  },
): HubDestinations {
  if (options.cluster === undefined) return NO_DESTINATIONS;
  return createHubDestinations(options.cluster, {
    ...options,
    settings,
    registry,
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
