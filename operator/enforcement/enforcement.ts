import type { Registry } from 'prom-client';
import type { BillingState, Settings, SettingsStore } from '../config/settings.ts';
import type { Discovery } from '../discovery/discovery.ts';
import type { DiscoverySources } from '../discovery/sources.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { EventRecorder } from '../kubernetes/events.ts';
import type { WorkQueueMetrics } from '../kubernetes/metrics.ts';
import type { WriteOutcome } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { reasonText } from '../destinations/alerts.ts';
import type { SignedRequest } from '../destinations/signatures.ts';
import type { DestinationType } from '../model/destination-type.ts';
import { createEnforcementMetrics } from './enforcement-metrics.ts';
import { createInbox, type InboxOutcome } from './inbox.ts';
import { createMarking, type MarkingStatus } from './marks/marking.ts';
import { type AskCustomer, loadCustomers } from './states/customers.ts';
import { loadSeenAlerts } from './states/seen-alerts.ts';
import { loadStates, type RecordStore } from './states/state-store.ts';
import {
  applyManual,
  effectiveState,
  type EffectiveState,
  newRecord,
  type SourceEntry,
  type TenantRecord,
} from './states/tenant-record.ts';

/** A tenant's billing state, and what it is made of. Times are milliseconds since the epoch. */
export interface TenantBillingState extends EffectiveState {
  readonly tenant: string;
  readonly since: number;
  readonly manual: boolean;
  readonly sources: readonly SourceEntry[];
}

/** Alerts of billing systems in, billing states and suspension labels out (spec 3, design 7). */
export interface Enforcement {
  /** Whether a billing system's messages can be verified, and so are accepted. */
  isEnabled(provider: DestinationType): boolean;
  receive(
    provider: DestinationType,
    request: SignedRequest,
    signal: AbortSignal,
  ): Promise<InboxOutcome>;
  /** Every tenant of which something is known, sorted; all others are active. */
  states(): readonly TenantBillingState[];
  stateOf(tenant: string): TenantBillingState;
  /** Durably sets a state that wins until it is cleared. */
  setManual(tenant: string, state: BillingState, reason: string): Promise<WriteOutcome>;
  /** Durably clears it, so that what the billing systems have said counts again. */
  clearManual(tenant: string): Promise<WriteOutcome>;
  readonly status: () => MarkingStatus;
  /** Marks objects until the signal is aborted. */
  run(signal: AbortSignal): Promise<void>;
}

export interface EnforcementOptions {
  readonly ledger: RecordStore;
  readonly connection: Pick<Connection, 'request'>;
  readonly settings: Pick<SettingsStore, 'current' | 'subscribe'>;
  readonly discovery: Pick<Discovery, 'known' | 'clusters' | 'tenants' | 'round' | 'subscribe'>;
  readonly sources: Pick<DiscoverySources, 'namespaces' | 'statefulSets' | 'deployments'>;
  readonly ask: AskCustomer;
  readonly events: Pick<EventRecorder, 'record'>;
  /** Resolves when the custom resources have been looked at: an override may exempt a tenant cluster. */
  readonly overridesKnown: (signal: AbortSignal) => Promise<void>;
  readonly queueMetrics?: WorkQueueMetrics;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly logger: Logger;
}

const PRUNE_INTERVAL_MS = 3_600_000;
const ROUND_RETRY_MS = 1_000;

/** Reads what earlier processes have recorded; throws when the ledger cannot be read. */
export async function createEnforcement(options: EnforcementOptions): Promise<Enforcement> {
  const { ledger, settings, discovery, clock, logger } = options;
  const { store, problems } = await loadStates(ledger);
  for (const problem of problems) logger.error(`[enforcement] ${problem}`);
  const seen = await loadSeenAlerts(ledger);
  const customers = await loadCustomers({
    ledger,
    tenants: () => discovery.tenants(),
    hasState: (tenant) => store.find(tenant) !== undefined,
    ask: options.ask,
  });
  /** Whether tenant clusters are known with the overrides laid over them; nothing is marked before. */
  let marking = false;

  const stateOf = (tenant: string): TenantBillingState =>
    describe(store.find(tenant) ?? newRecord(tenant, 0));
  const states = (): readonly TenantBillingState[] =>
    store
      .all()
      .map(describe)
      .toSorted((a, b) => (a.tenant < b.tenant ? -1 : 1));
  const metrics = createEnforcementMetrics(options.registry, {
    tenantsIn: (state) => states().filter((each) => each.state === state).length,
    suspendedClusters: () => marks.status().suspendedClusters.length,
    pending: () => marks.status().pending,
  });
  const marks = createMarking({
    ...options,
    settings: () => settings.current(),
    clusters: () => discovery.clusters(),
    stateOf,
    onApplied: metrics.applied,
    onFailure: metrics.failed,
  });
  const look = (): void => {
    if (marking) marks.look();
  };
  const inbox = createInbox({
    settings: () => settings.current().enforcement,
    states: store,
    seen,
    customers,
    known: discovery.known,
    onChange: look,
    clock,
    logger,
  });

  async function changeManual(
    tenant: string,
    said: { readonly state: BillingState; readonly reason: string } | undefined,
  ): Promise<WriteOutcome> {
    return inbox.inTurn(async () => {
      const now = clock.now();
      const record = store.find(tenant) ?? newRecord(tenant, now);
      const manual = said && { ...said, reason: reasonText(said.reason), at: now };
      const outcome = await store.putAll([applyManual(record, manual, now)]);
      if (outcome.kind === 'written') look();
      return outcome;
    });
  }

  async function prune(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const early = await seen.prune(clock.now());
      if (early > 0) logger.warn(`[enforcement] ${early} messages forgotten before their 30 days`);
      await clock.sleep(PRUNE_INTERVAL_MS, signal).catch(() => undefined);
    }
  }

  /** Marks are decided upon the first time when overrides are known, and tenant clusters by them. */
  async function begin(signal: AbortSignal): Promise<void> {
    try {
      await options.overridesKnown(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    while (!signal.aborted && (await discovery.round()).kind === 'failed') {
      await clock.sleep(ROUND_RETRY_MS, signal).catch(() => undefined);
    }
    if (signal.aborted) return;
    marking = true;
    look();
  }

  return {
    isEnabled: (provider) => isEnabled(settings.current(), provider),
    receive: async (provider, request, signal) => {
      const outcome = await inbox.receive(provider, request, signal);
      metrics.received(provider, outcome.kind === 'ignored' ? outcome.why : outcome.kind);
      return outcome;
    },
    states,
    stateOf,
    setManual: (tenant, state, reason) => changeManual(tenant, { state, reason }),
    clearManual: (tenant) => changeManual(tenant, undefined),
    status: marks.status,
    run: async (signal) => {
      const endings = [discovery.subscribe(look), settings.subscribe(look)];
      await Promise.all([begin(signal), marks.run(signal), prune(signal)]);
      marking = false;
      for (const end of endings) end();
    },
  };
}

function isEnabled({ enforcement }: Settings, provider: DestinationType): boolean {
  return (enforcement.webhookSecrets[provider] ?? []).length > 0;
}

function describe(record: TenantRecord): TenantBillingState {
  const { tenant, since, manual, entries } = record;
  return {
    tenant,
    ...effectiveState(record),
    since,
    manual: manual !== undefined,
    sources: entries,
  };
}
