import { meterClaimedGpus, meterGpuHours } from '../metering/gpu-hours.ts';
import { meterCpuAndMemory } from '../metering/cpu-memory.ts';
import { balanceGpus } from '../metering/gpu-balance.ts';
import { meterLoadBalancers, meterStorage } from '../metering/held-resources.ts';
import type { Meter } from '../metering/meter.ts';
import { meterWholeNodes } from '../metering/whole-nodes.ts';
import type { Observation } from '../observation/observation.ts';
import { nextWindow } from './schedule.ts';
import { obstacle, type ScopeProgress, type ScopeUnderWay } from './scope.ts';
import type { TenantObjects, TenantObjectsList } from './tenant-objects.ts';

/** The source that gaps of tenant clusters' own APIs name. */
export const TENANT_API = 'tenant-api';

/** The scopes of tenant clusters with nodes of their own, which come and go. */
export interface TenantScopes {
  /** As of the last {@link refresh}. */
  readonly all: readonly TenantScope[];
  /** Takes in tenant clusters that have come. */
  refresh(now: number): void;
  /** Forgets one whose last window is closed. */
  drop(id: string): void;
}

/** A scope with the tenant cluster whose API it stands for. */
export interface TenantScope extends ScopeUnderWay {
  readonly tenant: TenantObjects;
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

const METERS: readonly Meter[] = [
  meterCpuAndMemory,
  meterGpuHours,
  meterClaimedGpus,
  meterWholeNodes,
  balanceGpus,
  meterStorage,
  meterLoadBalancers,
];

export function createTenantScopes(options: TenantScopesOptions): TenantScopes {
  const { tenants, restored } = options;
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

  const scopeOf = (tenant: TenantObjects, now: number): TenantScope => ({
    tenant,
    scope: {
      name: `${TENANT_API}/${tenant.id}`,
      // A tenant cluster without nodes of its own is billed on this cluster for everything.
      get meters() {
        return tenant.hasOwnNodes ? METERS : [];
      },
      observation: tenant.observation,
      timelines: timelinesOf(tenant.observation),
      ownNodes: true,
      gapsOf: { scope: tenant.id, source: TENANT_API },
      get expected() {
        return tenant.hasOwnNodes;
      },
      obstacle: (settling) => {
        if (tenant.ended !== undefined) return undefined;
        const found = obstacle(tenant.sources, settling);
        return found && { source: TENANT_API, reason: `${found.source}: ${found.reason}` };
      },
    },
    progress: restored.get(tenant.id) ?? joining(now),
    learntUntil: options.learnt(),
    get listed() {
      return tenant.listed || tenant.ended !== undefined;
    },
  });

  return {
    get all() {
      return [...scopes.values()];
    },
    refresh: (now) => {
      for (const tenant of tenants.list()) {
        if (scopes.get(tenant.id)?.tenant !== tenant) {
          scopes.set(tenant.id, scopeOf(tenant, now));
        }
      }
    },
    drop: (id) => {
      scopes.delete(id);
      tenants.release(id);
    },
  };
}

/** Everything that is followed inside of a tenant cluster. */
function timelinesOf(observation: Observation) {
  const { pods, nodes, volumes, loadBalancers, resourceClaims, resourceSlices } = observation;
  return [pods, nodes, volumes, loadBalancers, resourceClaims, resourceSlices] as const;
}
