import { join } from 'node:path';
import { Registry } from 'prom-client';
import { createDelivery } from '../../delivery/delivery-engine.ts';
import { type CreateDestination, forCluster } from '../../destinations/registry.ts';
import { recordedTenant } from '../../discovery/memory.ts';
import { createStates, type StateStore } from '../../enforcement/states/state-store.ts';
import { newRecord } from '../../enforcement/states/tenant-record.ts';
import { billingStateOf } from '../../enforcement/enforcement.ts';
import { oneCustomer } from '../../fleet/one-customer.ts';
import { createStreamWatch } from '../../fleet/stream-watch.ts';
import type { ServedStream } from '../../http/server.ts';
import type { StreamName } from '../../ledger/fleet.ts';
import type { Ledger, WriteOutcome } from '../../ledger/ledger.ts';
import { createSumming } from '../../usage/summing.ts';
import type { SummingTurns } from '../../usage/sum-keeper.ts';
import { createDestinationMetrics } from '../destination-metrics.ts';
import { leaderDestinations } from '../leader-destinations.ts';
import { aborted, type Part, runParts } from '../parts.ts';
import type { HubContext } from './hub-context.ts';
import { streamCatalog } from './stream-catalog.ts';
import { deliver, existingOf, retire } from './stream-delivery.ts';
import { streamViews, type ViewedStream } from './stream-views.ts';
import { withSummedReads } from './summed-reads.ts';

/** One stream of a hub: read, summed, and fed to the hub's destinations. Independent of all others. */
export interface StreamUnit extends ServedStream, ViewedStream {
  readonly ledger: Ledger;
  /** Its own metrics, beside those of others that have the same names. */
  readonly registry: Registry;
  /** Retires the cursor of a destination that the hub has no more, unless somebody else feeds it. Idempotent. */
  readonly retire: (destination: string) => Promise<WriteOutcome>;
  /** Works until the signal is aborted, then closes the ledger. */
  readonly run: (signal: AbortSignal) => Promise<void>;
}

/** A stream as its database gives it to the hub that leads there. */
export interface OpenedStream {
  readonly ledger: Ledger;
  /** As `OpenStreamOutcome.adopt`. */
  readonly adopt: (destination: string) => Promise<WriteOutcome>;
  /** Whether this process certainly leads in its database at this moment. */
  readonly mayAct: () => boolean;
  /** Of all streams of the database: the streams of another one do not wait for it. */
  readonly turns: SummingTurns;
}

const STATES_MS = 30_000;

/** The unit of a stream that was opened. What its records say is known when it resolves. */
export async function openStreamUnit(
  context: HubContext,
  name: StreamName,
  { ledger, adopt, mayAct, turns }: OpenedStream,
): Promise<StreamUnit> {
  const { clock, random, logger, settings, environment } = context;
  const registry = new Registry();
  const watch = createStreamWatch({
    ledger,
    clock,
    logger,
    retentionMs: environment.ledger.retentionMs,
  });
  await watch.round();
  const catalog = streamCatalog(() => watch.report());
  const summing = createSumming({
    ledger,
    clock,
    logger,
    turns,
    usageDirectory: join(environment.ledger.dataDir, 'usage', encodeURIComponent(name.source)),
  });
  const delivery = createDelivery({
    clock,
    random,
    logger,
    ledger: withSummedReads(ledger, summing.hear),
    registry,
    catalog,
    createDestination: destinationsOf(context, name, mayAct),
    tenants: {
      find: (id) => (watch.findTenant(id) === undefined ? undefined : context.merged(id)),
      recorded: async (id) => context.merged(id) ?? recordedTenant(ledger, id),
      subscribe: (listener) => watch.subscribe(listener),
    },
    existing: () => existingOf(context.destinations.existing(), watch),
    othersFeed: true,
    mayAppend: false,
    maxBackfillMs: () => settings.current().metering.maxBackfillMs,
  });
  createDestinationMetrics(registry, () => delivery.statuses());
  const readStates = async (): Promise<StateStore> => {
    const read = createStates(ledger);
    await read.load();
    return read;
  };
  let states = await readStates();
  const reloadStates = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      await clock.sleep(STATES_MS, signal).catch(() => undefined);
      // Those that cannot be read now are read in half a minute.
      states = await readStates().catch(() => states);
    }
  };
  const parts: readonly Part[] = [
    { name: 'records', run: (signal) => watch.run(signal) },
    { name: 'states', run: reloadStates },
    {
      name: 'delivery',
      run: (signal) => deliver({ context, watch, delivery, adopt }, signal),
    },
    {
      name: 'sums',
      run: async (signal) => {
        await summing.open();
        await aborted(signal);
        await summing.close();
      },
    },
  ];
  const unit: StreamUnit = {
    name,
    source: name.source,
    watch,
    delivery,
    registry,
    ledger,
    retire: (destination) => retire(destination, { context, watch, delivery, adopt, ledger }),
    totals: summing.totals,
    fedByMeter: () => {
      const own = new Set(watch.report()?.ownDestinations);
      const names = [
        ...settings.current().billing.destinations,
        ...context.destinations.existing(),
      ];
      return [...new Set(names.map(({ name: one }) => one))].filter((one) => own.has(one));
    },
    billingState: (tenant) => billingStateOf(states.find(tenant) ?? newRecord(tenant, 0)),
    get views() {
      return views;
    },
    run: async (signal) => {
      const end = await runParts(parts, signal, { clock, logger });
      await ledger.close();
      if (end.kind === 'failed') throw new Error(end.reason);
    },
  };
  const views = streamViews(context, unit, catalog);
  return unit;
}

/** Destinations of the hub, as this stream sees them: under its own name, and sharing customers with all others. */
function destinationsOf(
  context: HubContext,
  { source }: StreamName,
  mayAct: () => boolean,
): CreateDestination {
  const { customers } = context;
  const create = leaderDestinations(context, mayAct);
  return (wanted) => {
    const outcome = create(forCluster(wanted, source));
    if (outcome.kind === 'invalid') return outcome;
    return { kind: 'created', destination: oneCustomer(outcome.destination, source, customers) };
  };
}
