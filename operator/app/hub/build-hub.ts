import { billingDestinations, existingDestination } from '../../controllers/billing-destination.ts';
import { ControllerSet } from '../../controllers/controller-set.ts';
import { SecretReader } from '../../controllers/secret-reader.ts';
import { billingStateOf } from '../../billing/enforcement/enforcement.ts';
import { newRecord } from '../../billing/enforcement/states/tenant-record.ts';
import { FleetCustomers } from '../fleet/customers.ts';
import { createFleetLedger, createFleetTotals } from '../fleet/fleet-ledger.ts';
import type { DestinationsView, ReadinessCheck } from '../../http/views.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import { createReflectorMetrics, createWorkQueueMetrics } from '../../kubernetes/metrics.ts';
import type { LeaderContext } from '../build-context.ts';
import { CustomResources } from '../custom-resources.ts';
import { httpComponent, labelComponents, reachOut } from '../leader-components.ts';
import type { Component } from '../components.ts';
import { destinationCursors } from '../stream.ts';
import { billingView } from '../views.ts';
import { allDestinationsView, metersOfAll } from './all-streams.ts';
import { createFleetMetrics } from './fleet-metrics.ts';
import { FleetRegistry } from './fleet-registry.ts';
import type { HubContext } from './hub-stream.ts';
import { type HubDatabases, HubStreams } from './hub-streams.ts';
import { fleetCatalog } from './stream-catalog.ts';

/** Dependencies of a hub. */
export interface HubOptions extends LeaderContext {
  readonly databases: HubDatabases;
  /** Epoch with which this process leads in the first database. */
  readonly epoch: number;
  /**
   * The cluster whose BillingDestinations apply beside the destinations of the environment. Absent
   * for a hub outside a cluster.
   */
  readonly cluster?: { readonly connection: Connection; readonly namespace: string } | undefined;
}

/** A leader answers requests for this long without its database. */
const ANSWERS_MS = 30_000;

/** Builds the hub of a leader: it reads and feeds streams (docs/how-to/fleet.md). */
export async function buildHub(options: HubOptions): Promise<readonly Component[]> {
  const { databases, epoch, mayAct, stopping } = options;
  const [{ database, lease }] = databases;
  const registry = new FleetRegistry(options.registry);
  const customResources = new CustomResources(
    (): ReturnType<typeof buildControllers> => controllers,
  );
  const reached = await reachOut({ ...options, registry }, customResources);
  const customers = new FleetCustomers(database.customers(epoch), mayAct);
  const context: HubContext & HubOptions = { ...reached.context, customers };
  const streams = new HubStreams(databases, context, registry);
  const destinations = allDestinationsView(streams.list);
  const controllers = buildControllers(context, streams, destinations);
  createFleetMetrics(registry, streams);
  const readiness = (): readonly ReadinessCheck[] =>
    readinessOf({ running: !stopping.aborted, streams, known: controllers.known() });
  const meters = metersOfAll(streams.list, streams.tenants, () => streams.problems());
  const totals = createFleetTotals(streams.list);
  const http = httpComponent(context, {
    ledger: createFleetLedger(streams.list),
    totals: () => totals,
    streams: streams.list,
    views: {
      settings: () => context.settings.current(),
      catalog: () => fleetCatalog(streams.list().map(({ origin }) => origin.catalog())),
      pricesKnown: () => streams.pricesKnown(),
      discovery: meters,
      metering: meters,
      destinations,
      billingState: (tenant) => {
        const states = streams.list().map((stream) => stream.billingState(tenant));
        return (
          states.find(({ state }) => state !== 'active') ??
          states[0] ??
          billingStateOf(newRecord(tenant, 0))
        );
      },
      fleet: () => streams.views(),
      readiness,
      leads: () => lease.isTrusted(ANSWERS_MS),
    },
  });
  return [
    ...reached.components,
    http,
    ...controllers.components,
    { name: 'streams', run: (signal) => streams.run(epoch, signal) },
    ...labelComponents(context, readiness),
  ];
}

/**
 * Controllers of the BillingDestinations in the hub's cluster, for all streams
 * (docs/how-to/fleet.md#destinations). None for a hub outside a cluster.
 */
function buildControllers(
  context: HubContext & Pick<HubOptions, 'cluster'>,
  streams: HubStreams,
  destinations: DestinationsView,
) {
  const { cluster, settings, registry } = context;
  if (cluster === undefined) {
    const none = { known: () => true, ready: async () => undefined, destinations: () => [] };
    return { ...none, components: [] };
  }
  const shared = { ...context, ...cluster };
  const set = new ControllerSet({
    ...shared,
    timings: context.controllerTimings,
    queueMetrics: createWorkQueueMetrics(registry),
    reflectorMetrics: createReflectorMetrics(registry),
  });
  const controller = set.add(
    billingDestinations({
      isHub: true,
      settings,
      secrets: new SecretReader(shared),
      delivery: billingView(destinations),
      cursors: destinationCursors(streams.list, context.clock, ({ source }) => `${source}: `),
    }),
  );
  let known = false;
  const component: Component = {
    name: 'destinations',
    run: async (signal) => {
      const learn = async (): Promise<void> => {
        await controller.ready(signal);
        known = true;
      };
      learn().catch(() => undefined);
      await set.run(signal);
    },
  };
  return {
    /** True once all have been read. Before that nothing is fed and no tenant is offboarded. */
    known: () => known,
    ready: (signal: AbortSignal) => controller.ready(signal),
    destinations: () => controller.objects().map((one) => existingDestination(one)),
    components: [component],
  };
}

function readinessOf({
  running,
  streams,
  known,
}: {
  readonly running: boolean;
  readonly streams: HubStreams;
  readonly known: boolean;
}): readonly ReadinessCheck[] {
  const requested = streams.ready();
  return [
    { name: 'running', ok: running, detail: running ? 'yes' : 'stopping' },
    {
      name: 'streams',
      ok: requested,
      detail: requested ? `${streams.list().length} are read` : 'the databases are being read',
    },
    {
      name: 'destinations',
      ok: known,
      detail: known ? 'known' : 'the BillingDestinations of the hub’s cluster are not read yet',
    },
  ];
}
