import type { Settings, SettingsStore } from '../settings/settings.ts';
import { errorText } from '../model/error-text.ts';
import type { Tenant } from '../model/tenant.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { placeKey } from './cluster-ids.ts';
import { discover, type Discovered, type OverrideUse } from './discover.ts';
import { beforeDeparting, type Departed, Departures, type WatchedObjects } from './departures.ts';
import { DiscoveryLog } from './discovery-log.ts';
import type { ExternalFile, ListedCluster } from './external-file.ts';
import type { CustomerIdKeys } from './metadata.ts';
import { assignedIds, loadMemory, type Memory, memoryChanges, rememberIds } from './memory.ts';
import type { RecordStore } from '../ledger/ledger.ts';
import { acceptOffboardings, stepOffboarding } from './offboarding.ts';
import { type DiscoverySources, sourcesState, tenantObjectsOf } from './sources.ts';
import type { DiscoveryOutcome, TenantCluster } from './tenant-cluster.ts';
import { sharedIdProblems, tenantsOf } from './tenants.ts';

/** Called after each successful pass; `at`: its start by the wall clock, ms since the epoch. */
export type DiscoveryListener = (clusters: readonly TenantCluster[], at: number) => void;

/** The wait between a request and its pass, so that a burst of changes causes one pass. */
const REQUEST_DELAY_MS = 1_000;
/** The wait after a failed pass. A watch does not report when it works again. */
const RETRY_MS = 2_000;

const NOTHING: Discovered = {
  clusters: [],
  newIds: new Map(),
  problems: [],
  overrides: [],
  refusedNamespaces: new Set(),
  enriched: 0,
};

/** Discovers repeatedly which tenant clusters exist and who pays for each. */
export class Discovery {
  readonly #options;
  readonly #log: DiscoveryLog;
  readonly #listeners = new Set<DiscoveryListener>();
  /** Customers whose offboarding delivery has accepted since the last pass. */
  readonly #accepted = new Set<string>();
  readonly #departures = new Departures();
  #memory: Memory | undefined;
  #found: Discovered = NOTHING;
  #tenants: ReadonlyMap<string, Tenant> = new Map();
  #last: DiscoveryOutcome | undefined;
  #lookedAt: number | undefined;
  #requested = new AbortController();

  constructor(options: {
    readonly sources: DiscoverySources;
    readonly settings: Pick<SettingsStore, 'current' | 'subscribe'>;
    readonly records: RecordStore;
    readonly customerIdKeys: CustomerIdKeys;
    /** The namespace of the operator, which belongs to no tenant. */
    readonly ownNamespace?: string;
    /** Reads TENANT_CLUSTERS_FILE, if it is set. */
    readonly external?: Pick<ExternalFile, 'poll'>;
    /** Ids of customers that still pay for objects of a departed tenant cluster. */
    readonly stillBilled?: () => readonly string[];
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#options = options;
    this.#log = new DiscoveryLog(options.logger, options.clock);
  }

  /** Requests a pass soon: a tenant cluster's object appeared, changed, or went as `departed`. */
  readonly request = (departed?: Departed): void => {
    if (departed !== undefined) this.#departures.add(departed);
    this.#requested.abort();
  };
  /** False until one pass has succeeded. */
  readonly known = (): boolean => this.#lookedAt !== undefined;
  /** The wall clock at the start of the last successful pass, milliseconds since the epoch. */
  readonly lookedAt = (): number | undefined => this.#lookedAt;

  /**
   * Runs a pass every RECONCILE_INTERVAL and after a change of settings, until the signal is
   * aborted. Never rejects.
   */
  async run(signal: AbortSignal): Promise<void> {
    const unsubscribe = this.#options.settings.subscribe(() => this.request());
    await this.#waitForSources(signal);
    while (!signal.aborted) {
      await this.runPass();
      await this.#waitForNextPass(signal);
    }
    unsubscribe();
  }

  /** Runs one pass. A failed pass changes nothing that is known. */
  async runPass(): Promise<DiscoveryOutcome> {
    const last = await this.#poll().catch((error: unknown) => failed(errorText(error)));
    if (last.kind === 'failed') this.#log.failed(last.reason, this.#found.clusters.length);
    this.#last = last;
    return last;
  }

  clusters(): readonly TenantCluster[] {
    return this.#found.clusters;
  }

  tenants(): readonly Tenant[] {
    return [...this.#tenants.values()];
  }

  findTenant(id: string): Tenant | undefined {
    return this.#tenants.get(id);
  }

  /** The outcome of the last pass; undefined before the first. */
  lastOutcome(): DiscoveryOutcome | undefined {
    return this.#last;
  }

  /**
   * Bad metadata and ambiguities of the last successful pass, one line each. If a later pass
   * failed, its reason comes first.
   */
  problems(): readonly string[] {
    const { problems } = this.#found;
    if (this.#last?.kind !== 'failed') return problems;
    return [
      `discovery fails: ${this.#last.reason}: the known tenant clusters stay unchanged`,
      ...problems,
    ];
  }

  /**
   * Namespaces whose labels claim a syncer, and that belong to nobody; {@link problems} gives the
   * reasons.
   */
  refusedNamespaces(): ReadonlySet<string> {
    return this.#found.refusedNamespaces;
  }

  /** The tenant clusters that each TenantOverride applies to. */
  overrides(): readonly OverrideUse[] {
    return this.#found.overrides;
  }

  /**
   * Customers whose grace is over, until delivery accepts their offboarding or they return.
   * Survives a restart.
   */
  offboarded(): readonly {
    readonly tenant: Tenant;
    /** Milliseconds since the epoch. */
    readonly at: number;
  }[] {
    return [...(this.#memory?.tenants ?? [])].flatMap(([id, { tenant, presence }]) => {
      if (presence.kind !== 'offboarded') return [];
      return presence.accepted || this.#accepted.has(id) ? [] : [{ tenant, at: presence.at }];
    });
  }

  /** Marks the offboarding of a customer as durably accepted by delivery. */
  acceptOffboarding(tenant: string): void {
    this.#accepted.add(tenant);
  }

  subscribe(listener: DiscoveryListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /**
   * Discovers the state before the latest departures first. So it finds what appeared and vanished
   * since the last pass.
   */
  async #poll(): Promise<DiscoveryOutcome> {
    const departed = this.#departures.list();
    if (departed.length > 0) {
      const before = await this.#attempt(departed);
      if (before.kind === 'failed') return before;
      this.#departures.forget(departed);
    }
    return this.#attempt([]);
  }

  async #attempt(departed: readonly Departed[]): Promise<DiscoveryOutcome> {
    const { sources, clock } = this.#options;
    const memory = (this.#memory ??= await this.#recall());
    const external = (await this.#options.external?.poll()) ?? { clusters: [], problems: [] };
    const settings = this.#options.settings.current();
    const state = sourcesState(sources, settings.discovery.sources);
    if (state.kind === 'failed') return state;
    const at = clock.now();
    const watched = beforeDeparting(this.#watched(state.platform), departed);
    const described = this.#describe(settings, watched, external.clusters, memory);
    const nextTenants = tenantsOf(described.clusters, settings);
    const problems = [
      ...external.problems,
      ...described.problems,
      ...sharedIdProblems(nextTenants),
    ];
    const next = { ...described, problems };
    const takenOver = new Set(this.#accepted);
    const step = stepOffboarding(
      acceptOffboardings(memory.tenants, takenOver),
      {
        tenants: nextTenants,
        staying: new Set([
          ...unmeteredTenants(next.clusters, nextTenants),
          ...(this.#options.stillBilled?.() ?? []),
        ]),
      },
      at,
      settings.discovery.offboardGraceMs,
    );
    const places = new Set(next.clusters.map(placeKey));
    const nextMemory = { ids: rememberIds(memory, next.newIds, places, at), tenants: step.known };
    const written = await this.#writeMemory(memory, nextMemory);
    if (written !== undefined) return failed(written);
    this.#memory = nextMemory;
    for (const id of takenOver) this.#accepted.delete(id);
    this.#log.succeeded({ previous: this.#found, next, step, platform: state.platform });
    this.#publish(next, nextTenants, at);
    return { kind: 'found', clusters: next.clusters };
  }

  #publish(found: Discovered, tenants: readonly Tenant[], at: number): void {
    this.#found = found;
    this.#tenants = new Map(tenants.map((tenant) => [tenant.id, tenant]));
    this.#lookedAt = at;
    for (const listener of this.#listeners) this.#notify(listener, at);
  }

  #watched(platform: 'present' | 'absent'): WatchedObjects {
    const { sources } = this.#options;
    return {
      workloads: [...sources.statefulSets.values(), ...sources.deployments.values()],
      instances: platform === 'present' ? [...sources.instances.values()] : [],
      namespace: (name) => sources.namespaces.find('', name),
      namespaces: [...sources.namespaces.values()],
      objects: (kind) => sources.tenantObjects.get(kind)?.values() ?? [],
    };
  }

  #describe(
    settings: Settings,
    watched: WatchedObjects,
    external: readonly ListedCluster[],
    memory: Memory,
  ): Discovered {
    return discover({
      ...watched,
      settings,
      ownNamespace: this.#options.ownNamespace,
      customerIdKeys: this.#options.customerIdKeys,
      external,
      assignedIds: assignedIds(memory),
      known: new Map(this.#found.clusters.map((cluster) => [cluster.id, cluster])),
    });
  }

  async #recall(): Promise<Memory> {
    const loaded = await loadMemory(this.#options.records);
    for (const problem of loaded.problems) this.#options.logger.error(`[discovery] ${problem}`);
    return loaded.memory;
  }

  /** Stores new ids before they are published. Returns why that failed; undefined on success. */
  async #writeMemory(from: Memory, to: Memory): Promise<string | undefined> {
    const changes = memoryChanges(from, to);
    if (changes.length === 0) return undefined;
    const outcome = await this.#options.records.writeRecords(changes);
    return outcome.kind === 'written' ? undefined : `ids cannot be stored: ${outcome.message}`;
  }

  /** A listener that throws must not fail the pass. */
  #notify(listener: DiscoveryListener, at: number): void {
    try {
      listener(this.#found.clusters, at);
    } catch (error) {
      this.#options.logger.error('[discovery] a listener failed', { error });
    }
  }

  /** Waits for the next pass: the interval, less after a failure, or a moment after a request. */
  async #waitForNextPass(signal: AbortSignal): Promise<void> {
    const { reconcileIntervalMs } = this.#options.settings.current().discovery;
    const waitMs =
      this.#last?.kind === 'failed' ? Math.min(RETRY_MS, reconcileIntervalMs) : reconcileIntervalMs;
    await this.#sleep(waitMs, AbortSignal.any([signal, this.#requested.signal]));
    if (this.#requested.signal.aborted) {
      await this.#sleep(Math.min(REQUEST_DELAY_MS, reconcileIntervalMs), signal);
    }
    this.#requested = new AbortController();
  }

  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    // An aborted sleep only ends early.
    await this.#options.clock.sleep(ms, signal).catch(() => undefined);
  }

  /** Waits for the first lists, at most one interval: the first pass then reports failures. */
  async #waitForSources(signal: AbortSignal): Promise<void> {
    const { sources, settings } = this.#options;
    const { statefulSets, deployments, namespaces, instances } = sources;
    const enough = new AbortController();
    const waiting = AbortSignal.any([signal, enough.signal]);
    const kinds = tenantObjectsOf(sources, settings.current().discovery.sources);
    const ready = [statefulSets, deployments, namespaces, instances, ...kinds].map((source) =>
      source.ready(waiting),
    );
    await Promise.race([
      Promise.all(ready).catch(() => undefined),
      this.#sleep(settings.current().discovery.reconcileIntervalMs, waiting),
    ]);
    enough.abort();
  }
}

function failed(reason: string): DiscoveryOutcome {
  return { kind: 'failed', reason };
}

function unmeteredTenants(
  clusters: readonly TenantCluster[],
  tenants: readonly Tenant[],
): ReadonlySet<string> {
  const metered = new Set(tenants.map(({ id }) => id));
  return new Set(clusters.map(({ tenant }) => tenant).filter((id) => !metered.has(id)));
}
