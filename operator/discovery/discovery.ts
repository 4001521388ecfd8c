import type { SettingsStore } from '../config/settings.ts';
import type { Tenant } from '../model/tenant.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { placeKey } from './cluster-ids.ts';
import { discover, type Discovered, type OverrideUse } from './discover.ts';
import { createDiscoveryLog } from './discovery-log.ts';
import type { ExternalFile } from './external-file.ts';
import type { CustomerIdKeys } from './metadata.ts';
import {
  assignedIds,
  loadMemory,
  type Memory,
  memoryChanges,
  type RecordStore,
  rememberIds,
} from './memory.ts';
import { acceptOffboardings, type OffboardingStep, stepOffboarding } from './offboarding.ts';
import { type DiscoverySources, sourcesState } from './sources.ts';
import type { DiscoveryOutcome, TenantCluster } from './tenant-cluster.ts';
import { sharedIdProblems, tenantsOf } from './tenants.ts';

export interface DiscoveryOptions {
  readonly sources: DiscoverySources;
  readonly settings: Pick<SettingsStore, 'current' | 'subscribe'>;
  readonly records: RecordStore;
  readonly customerIdKeys: CustomerIdKeys;
  /** TENANT_CLUSTERS_FILE, where there is one. */
  readonly external?: ExternalFile;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A customer that is to be offboarded from the destinations, and since when. */
export interface OffboardedTenant {
  readonly tenant: Tenant;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** Told after every successful round; `at` is the wall clock when the round looked. */
export type DiscoveryListener = (clusters: readonly TenantCluster[], at: number) => void;

/** Which tenant clusters there are and whom each is billed to, looked at again and again. */
export interface Discovery {
  /** A round every RECONCILE_INTERVAL and after a change of settings, until the signal is aborted. Never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** One round. A failed one changes nothing of what is known. */
  round(): Promise<DiscoveryOutcome>;
  /** Asks for a round soon: a watch has seen a tenant cluster come or go. */
  readonly request: () => void;
  /** False until one round has succeeded. */
  readonly known: () => boolean;
  /** The wall clock when the last successful round looked, milliseconds since the epoch. */
  readonly lookedAt: () => number | undefined;
  clusters(): readonly TenantCluster[];
  tenants(): readonly Tenant[];
  findTenant(id: string): Tenant | undefined;
  /** The last round's; undefined before the first. */
  lastOutcome(): DiscoveryOutcome | undefined;
  /** Bad metadata and ambiguities of the last successful round, one line each. */
  problems(): readonly string[];
  /** Where each TenantOverride applies. */
  overrides(): readonly OverrideUse[];
  /** Customers whose grace is over, until their offboarding is accepted or they return; also after a restart. */
  offboarded(): readonly OffboardedTenant[];
  /** Delivery has durably taken over the offboarding of a customer. */
  acceptOffboarding(tenant: string): void;
  subscribe(listener: DiscoveryListener): () => void;
}

/** Between a request and its round, so that a burst of changes makes one round. */
const REQUEST_DELAY_MS = 1_000;

const NOTHING: Discovered = {
  clusters: [],
  newIds: new Map(),
  problems: [],
  overrides: [],
  enriched: 0,
};

export function createDiscovery(options: DiscoveryOptions): Discovery {
  const { sources, settings, records, clock } = options;
  const log = createDiscoveryLog(options.logger, clock);
  const listeners = new Set<DiscoveryListener>();
  let memory: Memory | undefined;
  let found: Discovered = NOTHING;
  let tenants: ReadonlyMap<string, Tenant> = new Map();
  const accepted = new Set<string>();
  let last: DiscoveryOutcome | undefined;
  let lookedAt: number | undefined;
  let requested = new AbortController();

  const failed = (reason: string): DiscoveryOutcome => ({ kind: 'failed', reason });

  async function attempt(): Promise<DiscoveryOutcome> {
    memory ??= await recall();
    const external = (await options.external?.look()) ?? { clusters: [], problems: [] };
    const state = sourcesState(sources);
    if (state.kind === 'failed') return state;
    const at = clock.now();
    const current = settings.current();
    const described = discover({
      settings: current,
      workloads: [...sources.statefulSets.values(), ...sources.deployments.values()],
      instances: state.platform === 'present' ? sources.instances.values() : [],
      namespace: (name) => sources.namespaces.find('', name),
      customerIdKeys: options.customerIdKeys,
      external: external.clusters,
      assignedIds: assignedIds(memory),
      known: new Map(found.clusters.map((cluster) => [cluster.id, cluster])),
    });
    const nextTenants = tenantsOf(described.clusters, current);
    const problems = [
      ...external.problems,
      ...described.problems,
      ...sharedIdProblems(nextTenants),
    ];
    const next = { ...described, problems };
    const takenOver = new Set(accepted);
    const step = stepOffboarding(
      acceptOffboardings(memory.tenants, takenOver),
      { tenants: nextTenants, unmetered: unmeteredTenants(next.clusters, nextTenants) },
      at,
      current.discovery.offboardGraceMs,
    );
    const places = new Set(next.clusters.map(placeKey));
    const nextMemory = { ids: rememberIds(memory, next.newIds, places, at), tenants: step.known };
    const written = await writeMemory(memory, nextMemory);
    if (written !== undefined) return failed(written);
    memory = nextMemory;
    for (const id of takenOver) accepted.delete(id);
    publish({ next, nextTenants, step, at, platform: state.platform });
    return { kind: 'found', clusters: next.clusters };
  }

  async function recall(): Promise<Memory> {
    const loaded = await loadMemory(records);
    for (const problem of loaded.problems) options.logger.error(`[discovery] ${problem}`);
    return loaded.memory;
  }

  /** Before anybody hears of an id it must be certain to stay. Gives the reason when it cannot be. */
  async function writeMemory(from: Memory, to: Memory): Promise<string | undefined> {
    const changes = memoryChanges(from, to);
    if (changes.length === 0) return undefined;
    const outcome = await records.writeRecords(changes);
    return outcome.kind === 'written' ? undefined : `ids cannot be stored: ${outcome.message}`;
  }

  function publish(round: {
    readonly next: Discovered;
    readonly nextTenants: readonly Tenant[];
    readonly step: OffboardingStep;
    readonly at: number;
    readonly platform: 'present' | 'absent';
  }): void {
    const { next, step, at, platform } = round;
    log.succeeded({ previous: found, next, step, platform });
    found = next;
    tenants = new Map(round.nextTenants.map((tenant) => [tenant.id, tenant]));
    lookedAt = at;
    for (const listener of listeners) tell(listener, next.clusters, at);
  }

  /** A listener in trouble must not make a good round a failed one. */
  function tell(listener: DiscoveryListener, clusters: readonly TenantCluster[], at: number): void {
    try {
      listener(clusters, at);
    } catch (error) {
      options.logger.error('[discovery] a listener failed', { error });
    }
  }

  async function round(): Promise<DiscoveryOutcome> {
    last = await attempt().catch((error: unknown) =>
      failed(error instanceof Error ? error.message : String(error)),
    );
    if (last.kind === 'failed') log.failed(last.reason, found.clusters.length);
    return last;
  }

  /** Waits for the next round's time, or a little after a request. */
  async function rest(signal: AbortSignal): Promise<void> {
    const { reconcileIntervalMs } = settings.current().discovery;
    await sleep(reconcileIntervalMs, AbortSignal.any([signal, requested.signal]));
    if (requested.signal.aborted)
      await sleep(Math.min(REQUEST_DELAY_MS, reconcileIntervalMs), signal);
    requested = new AbortController();
  }

  async function sleep(ms: number, signal: AbortSignal): Promise<void> {
    // An aborted sleep has only ended early.
    await clock.sleep(ms, signal).catch(() => undefined);
  }

  /** The first round waits for the first lists, but not so long that their failure stays unsaid. */
  async function waitForSources(signal: AbortSignal): Promise<void> {
    const { statefulSets, deployments, namespaces, instances } = sources;
    const enough = new AbortController();
    const waiting = AbortSignal.any([signal, enough.signal]);
    const ready = [statefulSets, deployments, namespaces, instances].map((source) =>
      source.ready(waiting),
    );
    await Promise.race([
      Promise.all(ready).catch(() => undefined),
      sleep(settings.current().discovery.reconcileIntervalMs, waiting),
    ]);
    enough.abort();
  }

  const request = (): void => requested.abort();

  return {
    run: async (signal) => {
      const leave = settings.subscribe(request);
      await waitForSources(signal);
      while (!signal.aborted) {
        await round();
        await rest(signal);
      }
      leave();
    },
    round,
    request,
    known: () => lookedAt !== undefined,
    lookedAt: () => lookedAt,
    clusters: () => found.clusters,
    tenants: () => [...tenants.values()],
    findTenant: (id) => tenants.get(id),
    lastOutcome: () => last,
    problems: () => found.problems,
    overrides: () => found.overrides,
    offboarded: () =>
      [...(memory?.tenants ?? [])].flatMap(([id, { tenant, presence }]) => {
        if (presence.kind !== 'offboarded') return [];
        return presence.accepted || accepted.has(id) ? [] : [{ tenant, at: presence.at }];
      }),
    acceptOffboarding: (id) => void accepted.add(id),
    subscribe: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

function unmeteredTenants(
  clusters: readonly TenantCluster[],
  tenants: readonly Tenant[],
): ReadonlySet<string> {
  const metered = new Set(tenants.map(({ id }) => id));
  return new Set(clusters.map(({ tenant }) => tenant).filter((id) => !metered.has(id)));
}
