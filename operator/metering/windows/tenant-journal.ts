import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { errorText } from '../../model/error-text.ts';
import type { LoadBalancerView, VolumeClaimView } from '../timelines/retained-objects.ts';
import type { NodeView } from '../timelines/node.ts';
import type { TenantObservation } from '../timelines/observation.ts';
import type { PodView } from '../timelines/pod.ts';
import type { ResourceClaimView } from '../timelines/resource-claim.ts';
import type { ResourceSliceView } from '../timelines/resource-slice.ts';
import type { Observed } from '../timelines/timeline-rules.ts';
import type { Timelines } from '../timelines/timelines.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import {
  createTimelineRestorer,
  decodeState,
  drainChanges,
  type DrainedChanges,
  encodeState,
  type RestoreTools,
  type Resume,
} from './journal.ts';
import type { Quarantine } from './quarantine.ts';
import type { ScopeProgress, WatchPoint } from './scope.ts';
import { PRIVATE_OBJECTS, type TenantObjects, type TenantScopeState } from './tenant-scopes.ts';

/**
 * The journal of tenant clusters' own APIs, written in the same durable batch as that of this
 * cluster. Records, all versioned JSON: `journal/tenant-api-state/<tenant cluster>`, and
 * `journal/tenant-api/<tenant cluster>/<kind>/<uid>`.
 */
const STATE_PREFIX = 'journal/tenant-api-state/';
const TIMELINE_PREFIX = 'journal/tenant-api/';

/** What a restart needs besides the timelines. */
interface StoredTenantState {
  readonly progress: ScopeProgress;
  readonly hasPrivateNodes: boolean;
  readonly watches: Readonly<Record<string, WatchPoint>>;
}

/** What a start found of one tenant cluster. */
export interface RestoredTenantApi {
  readonly id: string;
  /** With the restored timelines. */
  readonly observation: TenantObservation;
  readonly progress: ScopeProgress;
  readonly hasPrivateNodes: boolean;
  /** Where each watch resumes; undefined if the journal has nothing of it. */
  readonly resume: {
    readonly pods: Resume<PodView> | undefined;
    readonly nodes: Resume<NodeView> | undefined;
    readonly resourceClaims: Resume<ResourceClaimView> | undefined;
    readonly resourceSlices: Resume<ResourceSliceView> | undefined;
    readonly volumes: Resume<VolumeClaimView> | undefined;
    readonly loadBalancers: Resume<LoadBalancerView> | undefined;
  };
}

/** Restores the journal of tenant clusters' own APIs into observations that `observe` creates. */
export async function restoreTenantApis(
  ledger: Pick<Ledger, 'records'>,
  observe: (id: string) => TenantObservation,
  { logger, clock }: RestoreTools,
): Promise<readonly RestoredTenantApi[]> {
  const restored: RestoredTenantApi[] = [];
  const slice = new TimeSlice(clock);
  for await (const [key, text] of ledger.records(STATE_PREFIX)) {
    const id = key.slice(STATE_PREFIX.length);
    const state = decodeState(text) as StoredTenantState | undefined;
    if (state === undefined) {
      logger.warn(`[controller] journal: cannot read the state of tenant API "${id}"`);
      continue;
    }
    const { progress, hasPrivateNodes, watches } = state;
    const observation = observe(id);
    const prefix = `${TIMELINE_PREFIX}${id}/`;
    const restore = createTimelineRestorer({ ledger, prefix, watches, logger, slice });
    const { pods, nodes, volumes, loadBalancers, resourceClaims, resourceSlices } = observation;
    const until = progress.end;
    const resume = {
      pods: await restore(pods, until),
      nodes: await restore(nodes, until),
      resourceClaims: await restore(resourceClaims, until),
      resourceSlices: await restore(resourceSlices, until),
      volumes: await restore(volumes, until),
      loadBalancers: await restore(loadBalancers, until),
    };
    restored.push({ id, observation, progress, hasPrivateNodes, resume });
  }
  return restored;
}

/** Writes each tenant cluster's journal completely or not at all. */
export class TenantJournal {
  readonly #quarantine: Pick<Quarantine, 'add' | 'reason'>;
  readonly #written = new Map<string, string>();
  /** Tenant clusters whose last attempt failed. */
  readonly #failed = new Set<string>();

  /** Tenant clusters whose progress a restart finds. */
  readonly #known: Set<string>;

  constructor(quarantine: Pick<Quarantine, 'add' | 'reason'>, known: Iterable<string>) {
    this.#quarantine = quarantine;
    this.#known = new Set(known);
  }

  /**
   * Drains the changes of these tenant clusters. One that cannot be written is quarantined, and its
   * last records stay.
   */
  drain(scopes: Iterable<TenantScopeState>, now: number): readonly RecordChange[] {
    const changes: RecordChange[] = [];
    for (const scope of scopes) {
      const { name } = scope.scope;
      if (this.#failed.has(name) && this.#quarantine.reason(name) !== undefined) continue;
      const written = this.#attempt(scope, () => this.#changesOf(scope, now)) ?? [];
      for (const change of written) changes.push(change);
    }
    return changes;
  }

  /** Writes the progress of new tenant clusters, which a restart needs at least. */
  begin(scopes: Iterable<TenantScopeState>): readonly RecordChange[] {
    const changes: RecordChange[] = [];
    for (const { tenant, progress } of scopes) {
      const { id, hasPrivateNodes } = tenant;
      if (this.#known.has(id)) continue;
      this.#known.add(id);
      changes.push(stateRecord(id, { progress, hasPrivateNodes, watches: {} }));
    }
    return changes;
  }

  /** Whether a tenant cluster can be written. Retries after a failure, or quarantines it again. */
  canWrite(scope: TenantScopeState): boolean {
    if (!this.#failed.has(scope.scope.name)) return true;
    const attempt = this.#attempt(scope, () => {
      for (const drained of drainAll(scope.tenant, () => true)) drained.putBack();
      return true;
    });
    return attempt === true;
  }

  /** Forgets a tenant cluster that is gone. If it comes back, it starts without a journal. */
  forget({ tenant: { id }, scope: { name } }: TenantScopeState): void {
    this.#known.delete(id);
    this.#written.delete(id);
    this.#failed.delete(name);
  }

  #attempt<T>({ scope: { name } }: TenantScopeState, write: () => T): T | undefined {
    try {
      const written = write();
      this.#failed.delete(name);
      return written;
    } catch (error) {
      this.#failed.add(name);
      this.#quarantine.add(name, `its journal cannot be written: ${errorText(error)}`);
      return undefined;
    }
  }

  #changesOf({ tenant, progress }: TenantScopeState, now: number): readonly RecordChange[] {
    const { id, hasPrivateNodes } = tenant;
    const watches = tenant.watchPoints(now);
    const record = stateRecord(id, { progress, hasPrivateNodes, watches });
    // A restart cannot continue from a part of a first list.
    const drained = drainAll(tenant, (kind) => kind in watches);
    const changes = drained.flatMap((each) => each.changes);
    this.#known.add(id);
    if (this.#written.get(id) === record.value) return changes;
    this.#written.set(id, record.value);
    return [...changes, record];
  }
}

function stateRecord(
  id: string,
  state: StoredTenantState,
): { readonly key: string; readonly value: string } {
  return { key: STATE_PREFIX + id, value: encodeState(state) };
}

/** Drains the changes of all wanted kinds. If one cannot be written, drains nothing and throws. */
function drainAll(
  { id, observation }: Pick<TenantObjects, 'id' | 'observation'>,
  isWanted: (kind: string) => boolean,
): readonly DrainedChanges[] {
  const drained: DrainedChanges[] = [];
  try {
    for (const object of PRIVATE_OBJECTS) {
      const timelines: Timelines<Observed, unknown> = observation[object];
      if (!isWanted(timelines.kind)) continue;
      drained.push(drainChanges(`${TIMELINE_PREFIX}${id}/`, timelines));
    }
    return drained;
  } catch (error) {
    for (const each of drained) each.putBack();
    throw error;
  }
}

/** Record changes that delete everything of a tenant cluster from the journal. */
export async function forgetTenantApi(
  ledger: Pick<Ledger, 'records'>,
  id: string,
): Promise<readonly RecordChange[]> {
  const changes: RecordChange[] = [{ key: STATE_PREFIX + id, value: undefined }];
  for await (const [key] of ledger.records(`${TIMELINE_PREFIX}${id}/`)) {
    changes.push({ key, value: undefined });
  }
  return changes;
}
