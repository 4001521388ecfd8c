import type { Connection } from '../../kubernetes/connection.ts';
import { metersAt, objectsOf } from '../meters/meters.ts';
import type { Observation } from '../timelines/observation.ts';
import type { PodView } from '../timelines/pod.ts';
import { nextWindow } from './schedule.ts';
import {
  obstacle,
  type ScopeProgress,
  type ScopeState,
  type WatchedSource,
  type WatchPoint,
} from './scope.ts';

/** The source that gaps of tenant clusters' own APIs name. */
export const TENANT_API = 'tenant-api';

/**
 * What the own API of one tenant cluster shows, as the collector needs to know it. It is a scope of
 * its own, that comes and goes at run time and closes its windows whether or not others do
 * (docs/explanation/nodes.md#private-nodes).
 */
export interface TenantObjects {
  /** Of the tenant cluster. */
  readonly id: string;
  /** Timelines of its objects; the tenant cluster itself is the only one in it. */
  readonly observation: Observation;
  /** The watches that its windows need at present. */
  readonly sources: readonly Pick<WatchedSource, 'resource' | 'health'>[];
  /** All of them have listed once. */
  readonly listed: boolean;
  /**
   * It has nodes of its own, or had: only then is its absence a gap, and what else it shows billed,
   * so that a fleet of shared tenant clusters is not drowned in alarms.
   */
  readonly hasOwnNodes: boolean;
  /** Set when nothing more will come: the tenant cluster is gone, or is not metered through its API any more. */
  readonly ended: TenantObjectsEnd | undefined;
  /**
   * What its API shows from now on waits, so that it can be measured and written in turns: its timelines and
   * {@link watchPoints} stay as they are at `now`, wall clock.
   */
  retain(now: number): RetainedObjects;
  /** By kind of timeline, where its watch can be resumed. */
  watchPoints(now: number): Readonly<Record<string, WatchPoint>>;
  /** Follows its nodes anew, by the settings in force; what that throws is its own failure. */
  refresh(kind: 'nodes'): void;
  /** Where its pods' usage is read, while that is what they are billed by. */
  readonly metricsApi: Pick<Connection, 'bytes'> | undefined;
  findPod(namespace: string, name: string): PodView | undefined;
}

/** Objects that nothing changes for a while. */
export interface RetainedObjects {
  /** False once something had to change them all the same. */
  readonly isComplete: boolean;
  /** What has waited is taken in. */
  release(): void;
}

export interface TenantObjectsEnd {
  /** Windows up to here are closed. */
  readonly at: number;
  /** Until when its objects were known. */
  readonly knownUntil: number;
}

/** All of them. */
export interface TenantObjectsList {
  list(): readonly TenantObjects[];
  /** Its last window is closed: nobody asks for it again. */
  release(id: string): void;
}

/** Where no tenant cluster has nodes of its own. */
export const NO_TENANT_OBJECTS: TenantObjectsList = {
  list: () => [],
  release: () => undefined,
};

/** A scope with the tenant cluster whose API it stands for. */
export interface TenantScope extends ScopeState {
  readonly tenant: TenantObjects;
}

export function isTenant(member: ScopeState | TenantScope): member is TenantScope {
  return 'tenant' in member;
}

/** The scopes of tenant clusters with nodes of their own, which come and go. */
export interface TenantScopes {
  /** As of the last {@link refresh}. */
  readonly all: readonly TenantScope[];
  /** Takes in tenant clusters that have come. */
  refresh(now: number): void;
  /** Forgets one whose last window is closed. */
  drop(id: string): void;
}

export interface TenantScopesOptions {
  readonly tenants: TenantObjectsList;
  /** How far the journal says that each was closed. */
  readonly restored: ReadonlyMap<string, ScopeProgress>;
  /** The host's own progress, which a tenant cluster that is new joins. */
  readonly host: () => ScopeProgress;
  readonly wantedMs: () => number;
  /** The tenant clusters that discovery has learnt so far. */
  readonly learnt: () => number;
}

const PRIVATE_METERS = metersAt('private nodes');
const METERS = PRIVATE_METERS.map(({ measure }) => measure);

/** The kinds of objects that meters of private nodes read. */
export const PRIVATE_OBJECTS = objectsOf(PRIVATE_METERS);

export function createTenantScopes(options: TenantScopesOptions): TenantScopes {
  const { tenants } = options;
  /** Each is gone on from once: a tenant cluster that is gone and comes again under its id begins anew. */
  const restored = new Map(options.restored);
  const scopes = new Map<string, TenantScope>();

  /** A tenant cluster is metered from the window in which it is first seen. */
  const joining = (now: number): ScopeProgress => {
    let progress = options.host();
    for (;;) {
      const { end, sizeMs } = nextWindow(progress, options.wantedMs());
      if (end > now) return { ...progress, meteredFrom: progress.end };
      progress = { ...progress, end, sizeMs };
    }
  };

  return {
    get all() {
      return [...scopes.values()];
    },
    refresh: (now) => {
      for (const tenant of tenants.list()) {
        if (scopes.get(tenant.id)?.tenant === tenant) continue;
        const progress = restored.get(tenant.id) ?? joining(now);
        restored.delete(tenant.id);
        scopes.set(tenant.id, scopeOf(tenant, progress, options.learnt()));
      }
    },
    drop: (id) => {
      scopes.delete(id);
      tenants.release(id);
    },
  };
}

/** Of the scope with this name; undefined where it is one of this cluster. */
export function tenantClusterOf(name: string): string | undefined {
  return name.startsWith(NAME_PREFIX) ? name.slice(NAME_PREFIX.length) : undefined;
}

const NAME_PREFIX = `${TENANT_API}/`;

function scopeOf(tenant: TenantObjects, progress: ScopeProgress, learntUntil: number): TenantScope {
  const { id, observation } = tenant;
  return {
    tenant,
    scope: {
      name: NAME_PREFIX + id,
      // A tenant cluster without nodes of its own is billed on this cluster for everything.
      get meters() {
        return tenant.hasOwnNodes ? METERS : [];
      },
      observation,
      timelines: PRIVATE_OBJECTS.map((object) => observation[object]),
      privateNodes: true,
      gapsOf: { scope: id, source: TENANT_API },
      get expected() {
        return tenant.hasOwnNodes;
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
