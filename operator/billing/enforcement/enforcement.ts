import type { Registry } from 'prom-client';
import type { BillingState, SettingsStore } from '../../settings/settings.ts';
import type { Discovery } from '../../discovery/discovery.ts';
import type { DiscoverySources } from '../../discovery/sources.ts';
import type { Connection } from '../../kubernetes/connection.ts';
import type { EventRecorder } from '../../kubernetes/events.ts';
import type { WorkQueueMetrics } from '../../kubernetes/metrics.ts';
import type { RecordStore, WriteOutcome } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { reasonText } from '../../destinations/alerts.ts';
import type { QueryCurrentAlerts } from '../../destinations/destination.ts';
import { definitionOf, DESTINATIONS } from '../../destinations/registry.ts';
import type { SignedRequest } from '../../destinations/signatures.ts';
import type { DestinationType } from '../../model/destination-type.ts';
import { createEnforcementMetrics } from './enforcement-metrics.ts';
import { Inbox, type InboxOptions, type InboxOutcome } from './inbox.ts';
import { type QueryKeys, PinnedKeys } from './states/pinned-keys.ts';
import { AlertPoller } from './alert-poller.ts';
import { Marking, type MarkingStatus } from './marks/marking.ts';
import { type QueryCustomer, createCustomers, type TenantsByCustomer } from './states/customers.ts';
import { SeenAlerts, secretName } from './states/seen-alerts.ts';
import { StateStore } from './states/state-store.ts';
import {
  applyBudget,
  applyManual,
  budgetEntry,
  type BudgetStatement,
  effectiveState,
  type EffectiveState,
  newRecord,
  type SourceEntry,
  type TenantRecord,
} from './states/tenant-record.ts';

/** A tenant's billing state and its sources. Times are milliseconds since the epoch. */
export interface TenantBillingState extends EffectiveState {
  readonly tenant: string;
  readonly since: number;
  readonly manual: boolean;
  readonly sources: readonly SourceEntry[];
}

const PRUNE_INTERVAL_MS = 3_600_000;
const PASS_RETRY_MS = 1_000;

/**
 * Derives billing states from alerts and budgets, and writes the suspension labels
 * (docs/how-to/enforcement.md). Call {@link load} first.
 */
export class Enforcement {
  readonly #options;
  readonly #store: StateStore;
  readonly #seen: SeenAlerts;
  readonly #customers: TenantsByCustomer;
  readonly #metrics: ReturnType<typeof createEnforcementMetrics>;
  readonly #marking: Marking;
  readonly #inbox: Inbox;
  readonly #poller: AlertPoller;
  /** True when tenant clusters are known with their overrides. No object is marked before. */
  #mayMark = false;

  constructor(options: {
    readonly ledger: RecordStore;
    readonly connection: Pick<Connection, 'request'>;
    readonly settings: Pick<SettingsStore, 'current' | 'subscribe'>;
    readonly discovery: Pick<Discovery, 'known' | 'clusters' | 'tenants' | 'runPass' | 'subscribe'>;
    readonly sources: Pick<DiscoverySources, 'namespaces' | 'statefulSets' | 'deployments'>;
    readonly queryCustomer: QueryCustomer;
    readonly queryCurrentAlerts: QueryCurrentAlerts;
    readonly queryKeys: QueryKeys;
    readonly report: InboxOptions['report'];
    readonly events: Pick<EventRecorder, 'record'>;
    /** Resolves after the first read of custom resources: overrides may exempt a tenant cluster. */
    readonly overridesKnown: (signal: AbortSignal) => Promise<void>;
    readonly queueMetrics?: WorkQueueMetrics;
    readonly registry: Registry;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    const { ledger, settings, discovery, registry, clock, logger } = options;
    this.#options = options;
    this.#store = new StateStore(ledger);
    this.#seen = new SeenAlerts(ledger);
    this.#customers = createCustomers({
      ledger,
      tenants: () => discovery.tenants(),
      hasState: (tenant) => this.#store.find(tenant) !== undefined,
      query: options.queryCustomer,
    });
    this.#metrics = createEnforcementMetrics(registry, {
      tenantsIn: (state) => this.states().filter((each) => each.state === state).length,
      suspendedClusters: () => this.status().suspendedClusters.length,
      pending: () => this.status().pending,
    });
    this.#marking = new Marking({
      ...options,
      settings: () => settings.current(),
      clusters: () => discovery.clusters(),
      stateOf: (tenant) => this.stateOf(tenant),
      onApplied: this.#metrics.applied,
      onFailure: this.#metrics.failed,
    });
    this.#inbox = new Inbox({
      settings: () => settings.current().enforcement,
      states: this.#store,
      seen: this.#seen,
      customers: this.#customers,
      keys: new PinnedKeys({
        query: options.queryKeys,
        destinations: () => settings.current().billing.destinations,
        clock,
        logger,
      }),
      report: options.report,
      known: discovery.known,
      onChange: () => this.#reconcile(),
      clock,
      logger,
    });
    this.#poller = new AlertPoller({
      query: options.queryCurrentAlerts,
      providers: () => DESTINATIONS.map(({ type }) => type).filter((type) => this.isEnabled(type)),
      states: this.#store,
      receive: (alert, signal) => this.#inbox.receivePolled(alert, signal),
      clock,
      logger,
    });
  }

  /** True when the messages of a billing system can be verified; others are refused. */
  isEnabled(provider: DestinationType): boolean {
    const { enforcement, billing } = this.#options.settings.current();
    if ((enforcement.webhookSecrets[provider] ?? []).length > 0) return true;
    // A billing system that signs with its own key needs no secret, only a destination to fetch the
    // key from.
    const hasKey = definitionOf(provider)?.alerts?.publicKey !== undefined;
    return hasKey && billing.destinations.some(({ type }) => type === provider);
  }

  /** Handles one message of a billing system. */
  async receive(
    provider: DestinationType,
    request: SignedRequest,
    signal: AbortSignal,
  ): Promise<InboxOutcome> {
    const outcome = await this.#inbox.receive(provider, request, signal);
    this.#metrics.received(provider, outcome.kind === 'ignored' ? outcome.why : outcome.kind);
    return outcome;
  }

  /** The recorded billing states, sorted by tenant. All other tenants are active. */
  states(): readonly TenantBillingState[] {
    return this.#store
      .all()
      .map(billingStateOf)
      .toSorted((a, b) => (a.tenant < b.tenant ? -1 : 1));
  }

  stateOf(tenant: string): TenantBillingState {
    return billingStateOf(this.#store.find(tenant) ?? newRecord(tenant, 0));
  }

  /** Durably sets a state that overrides all others until it is cleared. */
  setManual(tenant: string, state: BillingState, reason: string): Promise<WriteOutcome> {
    return this.#changeManual(tenant, { state, reason });
  }

  /** Durably clears the manual state: states of billing systems and budgets count again. */
  clearManual(tenant: string): Promise<WriteOutcome> {
    return this.#changeManual(tenant, undefined);
  }

  /** Durably records the states that budgets give tenants. Known states are not written again. */
  applyBudgets(stated: readonly BudgetStatement[]): Promise<WriteOutcome> {
    return this.#inbox.enqueue(async () => {
      const { clock, logger } = this.#options;
      const now = clock.now();
      const changed = stated.flatMap((statement) => {
        const record = this.#store.find(statement.tenant);
        return isKnown(statement, record)
          ? []
          : [applyBudget(record ?? newRecord(statement.tenant, now), statement, now)];
      });
      if (changed.length === 0) return { kind: 'written' };
      const outcome = await this.#store.putAll(changed);
      if (outcome.kind === 'failed') return outcome;
      for (const record of changed) {
        const { tenant } = record;
        const { state } = effectiveState(record);
        const given = budgetEntry(record)?.state ?? 'active';
        logger.info(`[enforcement] ${tenant} is ${state} after its budget gave ${given}`, {
          tenant,
          state,
        });
      }
      this.#reconcile();
      return outcome;
    });
  }

  /** The tenants that a budget warns or suspends. */
  limitedByBudgets(): readonly string[] {
    const held = this.#store.all().filter((record) => budgetEntry(record) !== undefined);
    return held.map(({ tenant }) => tenant);
  }

  readonly status = (): MarkingStatus => this.#marking.status();

  /**
   * Reads the records of earlier processes. Call it before {@link run}. Throws when the ledger
   * cannot be read.
   */
  async load(): Promise<void> {
    const problems = await this.#store.load();
    for (const problem of problems) this.#options.logger.error(`[enforcement] ${problem}`);
    await this.#seen.load();
    await this.#customers.load();
  }

  async run(signal: AbortSignal): Promise<void> {
    const { discovery, settings } = this.#options;
    const reconcile = (): void => this.#reconcile();
    const endings = [discovery.subscribe(reconcile), settings.subscribe(reconcile)];
    await Promise.all([
      this.#begin(signal),
      this.#marking.run(signal),
      this.#prune(signal),
      this.#poller.run(signal),
    ]);
    this.#mayMark = false;
    for (const end of endings) end();
  }

  #reconcile(): void {
    if (this.#mayMark) this.#marking.reconcile();
  }

  async #changeManual(
    tenant: string,
    stated: { readonly state: BillingState; readonly reason: string } | undefined,
  ): Promise<WriteOutcome> {
    return this.#inbox.enqueue(async () => {
      const now = this.#options.clock.now();
      const record = this.#store.find(tenant) ?? newRecord(tenant, now);
      const manual = stated && { ...stated, reason: reasonText(stated.reason), at: now };
      const outcome = await this.#store.putAll([applyManual(record, manual, now)]);
      if (outcome.kind === 'written') this.#reconcile();
      return outcome;
    });
  }

  async #prune(signal: AbortSignal): Promise<void> {
    const { clock, logger, settings } = this.#options;
    while (!signal.aborted) {
      const { webhookSecrets } = settings.current().enforcement;
      const secrets = Object.values(webhookSecrets).flatMap((each) => each.map(secretName));
      const early = await this.#seen.prune(clock.now(), new Set(secrets));
      if (early > 0) {
        const fix = 'change the webhook secret there and here, so that none is accepted again';
        logger.warn(`[enforcement] ${early} messages were forgotten early; ${fix}`);
      }
      await clock.sleep(PRUNE_INTERVAL_MS, signal).catch(() => undefined);
    }
  }

  /** Waits for overrides and a discovery pass that applies them, then plans the first marks. */
  async #begin(signal: AbortSignal): Promise<void> {
    const { overridesKnown, discovery, clock } = this.#options;
    try {
      await overridesKnown(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    // Discovery's own first pass waits for the first lists: an earlier pass fails and logs an
    // error.
    while (
      !signal.aborted &&
      !(discovery.known() && (await discovery.runPass()).kind === 'found')
    ) {
      await clock.sleep(PASS_RETRY_MS, signal).catch(() => undefined);
    }
    if (signal.aborted) return;
    this.#mayMark = true;
    this.#reconcile();
  }
}

function isKnown({ state, reason }: BudgetStatement, record: TenantRecord | undefined): boolean {
  const before = budgetEntry(record);
  if (before === undefined) return state === 'active';
  return before.state === state && before.reason === reason;
}

/** The billing state that a record stands for. */
export function billingStateOf(record: TenantRecord): TenantBillingState {
  const { tenant, since, manual, entries } = record;
  return {
    tenant,
    ...effectiveState(record),
    since,
    manual: manual !== undefined,
    sources: entries,
  };
}
