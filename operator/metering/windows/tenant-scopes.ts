import type { Connection } from '../../kubernetes/connection.ts';
import { metersAt, objectsOf } from '../meters/meters.ts';
import type { TenantObservation } from '../timelines/observation.ts';
import type { PodView } from '../timelines/pod.ts';
import { nextWindow } from './schedule.ts';
import {
  obstacle,
  type ScopeProgress,
  type ScopeState,
  type WatchedSource,
  type WatchPoint,
} from './scope.ts';

/** Gap source of tenant clusters' own APIs. */
export const TENANT_API = 'tenant-api';

/**
 * The objects of one tenant cluster's own API, as the collector needs them. They are a scope of
 * their own. It comes and goes at run time and closes its windows independently of others
 * (docs/explanation/nodes.md#private-nodes).
 */
export interface TenantObjects {
  readonly id: string;
  /** Timelines of its objects. The tenant cluster itself is the only one in it. */
  readonly observation: TenantObservation;
  /** The watches that its windows need at present. */
  readonly sources: readonly Pick<WatchedSource, 'resource' | 'health'>[];
  /** All watches have listed once. */
  readonly listed: boolean;
  /**
   * It has or had private nodes. Only then is its absence a gap and its other usage billed, so that
   * a fleet of shared tenant clusters does not flood administrators with alarms.
   */
  readonly hasPrivateNodes: boolean;
  /** Set when no more data will come: the tenant cluster is gone or not metered through its API. */
  readonly ended:
    | {
        /** Windows up to here are closed. */
        readonly at: number;
        /** Until when its objects were known. */
        readonly knownUntil: number;
      }
    | undefined;
  /**
   * Makes new data of its API wait, so that its objects can be measured and written in slices.
   * Timelines and {@link watchPoints} stay as they are at `now`, wall clock.
   */
  retain(now: number): RetainedObjects;
  /** By kind of timeline: where its watch can be resumed. */
  watchPoints(now: number): Readonly<Record<string, WatchPoint>>;
  /** Reads its nodes again by the settings in force. An error counts as its own failure. */
  refresh(kind: 'nodes'): void;
  /** The API of its pods' usage, while that is what they are billed by. */
  readonly metricsApi: Pick<Connection, 'bytes'> | undefined;
  findPod(namespace: string, name: string): PodView | undefined;
}

/** Objects that do not change for a while. */
export interface RetainedObjects {
  /** False once something had to change them anyway. */
  readonly isComplete: boolean;
  /** Applies the data that has waited. */
  release(): void;
}

/** All tenant clusters that are metered through their own API. */
export interface TenantObjectsList {
  list(): readonly TenantObjects[];
  /** Removes a tenant cluster whose last window is closed. */
  release(id: string): void;
}

/** A scope with the tenant cluster whose API it stands for. */
export interface TenantScopeState extends ScopeState {
  readonly tenant: TenantObjects;
}

export function isTenant(member: ScopeState | TenantScopeState): member is TenantScopeState {
  return 'tenant' in member;
}

const PRIVATE_METERS = metersAt('private nodes');
const METERS = PRIVATE_METERS.map(({ measure }) => measure);

/** The kinds of objects that meters of private nodes read. */
export const PRIVATE_OBJECTS = objectsOf(PRIVATE_METERS);

/** The scopes of tenant clusters with private nodes, which come and go. */
export class TenantScopes {
  readonly #options;
  /** Each is used once. A tenant cluster that returns with its id starts without the journal. */
  readonly #restored: Map<string, ScopeProgress>;
  readonly #scopes = new Map<string, TenantScopeState>();

  constructor(options: {
    readonly tenants: TenantObjectsList;
    /** Progress of each, from the journal. */
    readonly restored: ReadonlyMap<string, ScopeProgress>;
    /** Progress of this cluster, which a new tenant cluster joins. */
    readonly host: () => ScopeProgress;
    readonly wantedMs: () => number;
    /** Number of the newest tenant cluster that discovery has found. */
    readonly learnt: () => number;
  }) {
    this.#options = options;
    this.#restored = new Map(options.restored);
  }

  /** As of the last {@link refresh}. */
  get all(): readonly TenantScopeState[] {
    return [...this.#scopes.values()];
  }

  /** Adds new tenant clusters. */
  refresh(now: number): void {
    const { tenants, learnt } = this.#options;
    for (const tenant of tenants.list()) {
      const { id } = tenant;
      if (this.#scopes.get(id)?.tenant === tenant) continue;
      const progress = this.#restored.get(id) ?? this.#joining(now);
      this.#restored.delete(id);
      this.#scopes.set(id, scopeOf(tenant, progress, learnt()));
    }
  }

  /** Removes a tenant cluster whose last window is closed. */
  drop(id: string): void {
    this.#scopes.delete(id);
    this.#options.tenants.release(id);
  }

  /** Progress of a new tenant cluster: metered from the window in which it first appears. */
  #joining(now: number): ScopeProgress {
    const { host, wantedMs } = this.#options;
    let progress = host();
    for (;;) {
      const { end, sizeMs } = nextWindow(progress, wantedMs());
      if (end > now) return { ...progress, meteredFrom: progress.end };
      progress = { ...progress, end, sizeMs };
    }
  }
}

/** The id of the tenant cluster in a scope name; undefined for scopes of this cluster. */
export function tenantClusterOf(name: string): string | undefined {
  return name.startsWith(NAME_PREFIX) ? name.slice(NAME_PREFIX.length) : undefined;
}

const NAME_PREFIX = `${TENANT_API}/`;

function scopeOf(
  tenant: TenantObjects,
  progress: ScopeProgress,
  learntUntil: number,
): TenantScopeState {
  const { id, observation } = tenant;
  return {
    tenant,
    scope: {
      name: NAME_PREFIX + id,
      // Without private nodes, everything of a tenant cluster is billed on this cluster.
      get meters() {
        return tenant.hasPrivateNodes ? METERS : [];
      },
      observation,
      timelines: PRIVATE_OBJECTS.map((object) => observation[object]),
      privateNodes: true,
      gapsOf: { scope: id, source: TENANT_API },
      get expected() {
        return tenant.hasPrivateNodes;
      },
      obstacle: (settling) => {
        if (tenant.ended !== undefined) return undefined;
        const found = obstacle(tenant.sources, settling);
        return found && { source: TENANT_API, reason: `${found.source}: ${found.reason}` };
      },
    },
    progress,
    learntUntil,
    get listed() {
      return tenant.listed || tenant.ended !== undefined;
    },
  };
}
