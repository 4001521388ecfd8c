import { Registry } from 'prom-client';
import type { ExistingDestination } from '../../delivery/destination-status.ts';
import { forCluster } from '../../destinations/registry.ts';
import { recordedTenant } from '../../discovery/memory.ts';
import { billingStateOf, type TenantBillingState } from '../../billing/enforcement/enforcement.ts';
import { StateStore } from '../../billing/enforcement/states/state-store.ts';
import { newRecord } from '../../billing/enforcement/states/tenant-record.ts';
import type { FleetCustomers } from '../fleet/customers.ts';
import { oneCustomer } from '../fleet/one-customer.ts';
import { StreamWatch } from '../fleet/stream-watch.ts';
import type { ServedStream } from '../../http/server.ts';
import type { DestinationsView, Views } from '../../http/views.ts';
import type { StreamName } from '../../ledger/fleet.ts';
import type { Ledger, WriteOutcome } from '../../ledger/ledger.ts';
import type { Rollups } from '../../ledger/rollups.ts';
import type { Tenant } from '../../model/tenant.ts';
import { SumsStore } from '../../billing/usage/sums-store.ts';
import { LedgerTotals } from '../../billing/usage/usage-totals.ts';
import type { StreamContext } from '../build-context.ts';
import { type KnownMeter, recordedMeter } from '../known-meter.ts';
import { type Component, runComponents } from '../components.ts';
import { Stream, type StreamSource } from '../stream.ts';
import { destinationsView, streamViews } from '../views.ts';
import { streamCatalog } from './stream-catalog.ts';

/** Dependencies that the streams of a hub share. */
export interface HubContext extends StreamContext {
  /** Recorded in the first database. */
  readonly customers: FleetCustomers;
}

/** A stream, opened in its database by the hub that leads there. */
interface OpenedStream {
  readonly ledger: Ledger;
  /** The sums that the stream's operator maintains. */
  readonly rollups: Rollups;
  /** See `OpenStreamOutcome.adopt`. */
  readonly adopt: (destination: string) => Promise<WriteOutcome>;
  /** Returns whether this process certainly leads in the stream's database at this moment. */
  readonly mayAct: () => boolean;
}

interface AllStreams {
  /** The tenant merged over all streams; undefined if no stream knows it. */
  readonly merged: (tenant: string) => Tenant | undefined;
  /** Resolves when the existing streams have been opened, or the signal is aborted. */
  readonly allQueried: (signal: AbortSignal) => Promise<void>;
}

const STATES_MS = 30_000;
/** Without a report for this long, the meter is shown as silent. */
const SILENT_MS = 30_000;

/**
 * The stream of a meter elsewhere. This process reads it from its database and feeds it to the
 * hub's destinations, independently of other streams.
 */
export class HubStream extends Stream implements ServedStream {
  readonly watch: StreamWatch;
  readonly meter: KnownMeter;
  readonly destinations: DestinationsView;
  readonly views: Views;
  readonly #hub: HubContext;
  readonly #all: AllStreams;
  #states: StateStore;

  private constructor(
    hub: HubContext,
    all: AllStreams,
    origin: StreamSource,
    { watch, states }: { readonly watch: StreamWatch; readonly states: StateStore },
  ) {
    super(hub, origin);
    this.#hub = hub;
    this.#all = all;
    this.#states = states;
    this.watch = watch;
    this.meter = recordedMeter(watch);
    this.destinations = destinationsView(this.delivery);
    this.views = streamViews(this, {
      settings: () => this.#settings(),
      catalog: origin.catalog,
      pricesKnown: () => true,
      billingState: (tenant) => this.billingState(tenant),
      readiness: () => {
        const ok = watch.report() !== undefined;
        return [{ name: 'meter', ok, ...(!ok && { detail: 'no meter has reported yet' }) }];
      },
    });
  }

  /** Returns the stream after a first read of its records. */
  static async open(
    hub: HubContext,
    all: AllStreams,
    name: StreamName,
    opened: OpenedStream,
  ): Promise<HubStream> {
    const { clock, logger, environment } = hub;
    const { ledger } = opened;
    const { retentionMs } = environment.ledger;
    const watch = new StreamWatch({ ledger, clock, logger, retentionMs });
    await watch.refresh();
    const states = await readStates(ledger);
    return new HubStream(hub, all, originOf(hub, all, name, { ...opened, watch }), {
      watch,
      states,
    });
  }

  get name(): StreamName {
    return this.origin.name;
  }

  get source(): string {
    return this.origin.name.source;
  }

  get ledger(): Ledger {
    return this.origin.ledger;
  }

  billingState(tenant: string): TenantBillingState {
    return billingStateOf(this.#states.find(tenant) ?? newRecord(tenant, 0));
  }

  /** Works until the signal is aborted, then closes the ledger. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#hub;
    const components: readonly Component[] = [
      { name: 'records', run: (ending) => this.watch.run(ending) },
      { name: 'states', run: (ending) => this.#followStates(ending) },
      { name: 'delivery', run: (ending) => this.#feedWhenKnown(ending) },
    ];
    const end = await runComponents(components, signal, { clock, logger });
    await this.ledger.close();
    if (end.kind === 'failed') throw new Error(end.reason);
  }

  /** Returns why this hub does not feed the stream to all its destinations, or undefined. */
  problem(): string | undefined {
    const role = this.watch.report()?.role;
    const silentMs = this.watch.silentMs();
    if (role === undefined) return 'no meter has reported yet: it may run an older release';
    if (silentMs !== undefined && silentMs > SILENT_MS) {
      return `its meter has reported nothing for ${Math.round(silentMs / 1000)} s`;
    }
    if (role !== 'meter') {
      return 'its operator feeds the destinations itself, so this hub feeds none; set ROLE=meter there to change that';
    }
    const own = new Set(this.watch.report()?.ownDestinations);
    const { settings, customResources } = this.#hub;
    const names = [...settings.current().billing.destinations, ...customResources.destinations()];
    const both = names.find(({ name }) => own.has(name));
    if (both === undefined) return undefined;
    return `destination: a BillingDestination of its own cluster has the same name and is fed instead of the hub’s: "${both.name}"; rename one of them, or delete that one`;
  }

  #settings(): ReturnType<Views['settings']> {
    const current = this.#hub.settings.current();
    const { source: clusterName, region } = this.name;
    const windowMs = this.watch.report()?.windowMs ?? current.metering.windowMs;
    return {
      ...current,
      identity: { ...this.#hub.environment.identity, clusterName, region },
      metering: { ...current.metering, windowMs },
    };
  }

  /** Feeds once the hub's destinations and all streams are known: customers span all streams. */
  async #feedWhenKnown(signal: AbortSignal): Promise<void> {
    try {
      await this.#hub.customResources.ready(signal);
      await this.#all.allQueried(signal);
    } catch (error) {
      if (signal.aborted) return;
      throw error;
    }
    await this.feed(signal);
  }

  async #followStates(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#hub.clock.sleep(STATES_MS, signal).catch(() => undefined);
      // A failed read is repeated after half a minute.
      this.#states = await readStates(this.ledger).catch(() => this.#states);
    }
  }
}

async function readStates(ledger: Ledger): Promise<StateStore> {
  const states = new StateStore(ledger);
  await states.load();
  return states;
}

/**
 * Source of a stream of the hub. The hub skips all destinations while the stream's operator feeds
 * them, and single ones whose name the meter uses itself.
 */
function originOf(
  { clock, settings, customers, customResources, logger }: HubContext,
  all: AllStreams,
  name: StreamName,
  { ledger, rollups, adopt, mayAct, watch }: OpenedStream & { readonly watch: StreamWatch },
): StreamSource {
  const { source } = name;
  const isMeter = (): boolean => watch.report()?.role === 'meter';
  const isOwn = (destination: string): boolean =>
    watch.report()?.ownDestinations?.includes(destination) === true;
  /** This stream's destinations. They get cursors only where the hub feeds the stream. */
  const existing = (): readonly ExistingDestination[] =>
    customResources.destinations().flatMap((destination) => {
      if (isOwn(destination.name)) return [];
      const { startFrom: _, ...unplaced } = destination;
      return [isMeter() ? destination : unplaced];
    });
  const totals = new LedgerTotals({
    ledger,
    clock,
    store: new SumsStore(rollups, ledger.stats().ledgerId),
    rebuild: async () => undefined,
  });
  return {
    name,
    ledger,
    totals: () => totals,
    mayAct,
    existing,
    registry: new Registry(),
    catalog: streamCatalog(() => watch.report()),
    tenants: {
      find: (id) => (watch.findTenant(id) === undefined ? undefined : all.merged(id)),
      recorded: async (id) => all.merged(id) ?? recordedTenant(ledger, id),
      subscribe: (listener) => watch.subscribe(listener),
    },
    othersFeed: true,
    mayAppend: false,
    createDestination: (create) => (wanted) => {
      const outcome = create(forCluster(wanted, source));
      if (outcome.kind === 'invalid') return outcome;
      return { kind: 'created', destination: oneCustomer(outcome.destination, source, customers) };
    },
    wanted: () =>
      isMeter()
        ? settings.current().billing.destinations.filter(({ name: one }) => !isOwn(one))
        : [],
    subscribe: (listener) => {
      const endings = [watch.subscribe(listener), settings.subscribe(listener)];
      return () => {
        for (const end of endings) end();
      };
    },
    adopt: async (wanted) => {
      for (const one of [...wanted, ...(isMeter() ? existing() : [])]) {
        const outcome = await adopt(one.name);
        if (outcome.kind === 'written') continue;
        logger.warn(`[fleet] ${one.name}: ${outcome.message}`);
        return false;
      }
      return true;
    },
    isOthers: (destination) => !isMeter() || isOwn(destination),
    departures: () => (isMeter() ? watch.departures() : []),
    // Every offboarding is durably requested before the departure is acknowledged.
    depart: async (departure, delivery) => {
      const requested = await delivery.offboard(departure.tenant);
      return requested.kind === 'failed' ? requested : watch.acknowledge(departure);
    },
  };
}
