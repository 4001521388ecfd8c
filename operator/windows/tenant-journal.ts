import type { Projected } from '../kubernetes/source.ts';
import type { Ledger, RecordChange } from '../ledger/ledger.ts';
import { isRecord } from '../model/is-record.ts';
import { decodeJson, encodeJson } from '../observation/journal-text.ts';
import type { LoadBalancerView, VolumeClaimView } from '../observation/held-objects.ts';
import type { NodeView } from '../observation/node.ts';
import type { Observation } from '../observation/observation.ts';
import type { PodView } from '../observation/pod.ts';
import type { ResourceClaimView } from '../observation/resource-claim.ts';
import type { ResourceSliceView } from '../observation/resource-slice.ts';
import type { Timelines } from '../observation/timelines.ts';
import type { Logger } from '../telemetry/logger.ts';
import {
  createTimelineRestorer,
  JOURNAL_VERSION,
  type Resume,
  timelineChanges,
} from './journal.ts';
import type { ScopeProgress, WatchPoint } from './scope.ts';
import type { TenantScope } from './tenant-scopes.ts';

/**
 * The journal of tenant clusters' own APIs, written in the same durable unit as that of this cluster.
 * Records, all versioned JSON: `journal/tenant-api-state/<tenant cluster>`, and
 * `journal/tenant-api/<tenant cluster>/<kind>/<uid>`.
 */
const STATE_PREFIX = 'journal/tenant-api-state/';
const TIMELINE_PREFIX = 'journal/tenant-api/';

/** What a restart needs besides the timelines. */
interface TenantState {
  readonly progress: ScopeProgress;
  readonly hasOwnNodes: boolean;
  readonly watches: Readonly<Record<string, WatchPoint>>;
}

/** What a start found of one tenant cluster. */
export interface RestoredTenantApi {
  /** Of the tenant cluster. */
  readonly id: string;
  /** With the timelines in it. */
  readonly observation: Observation;
  readonly progress: ScopeProgress;
  readonly hasOwnNodes: boolean;
  /** Where each watch resumes; undefined where the journal knows nothing. */
  readonly resume: {
    readonly pods: Resume<PodView> | undefined;
    readonly nodes: Resume<NodeView> | undefined;
    readonly resourceClaims: Resume<ResourceClaimView> | undefined;
    readonly resourceSlices: Resume<ResourceSliceView> | undefined;
    readonly volumes: Resume<VolumeClaimView> | undefined;
    readonly loadBalancers: Resume<LoadBalancerView> | undefined;
  };
}

/** Puts everything back that the journal has of tenant clusters' own APIs, into observations that `observe` makes. */
export async function restoreTenantApis(
  ledger: Pick<Ledger, 'records'>,
  observe: (id: string) => Observation,
  logger: Logger,
): Promise<readonly RestoredTenantApi[]> {
  const restored: RestoredTenantApi[] = [];
  for await (const [key, text] of ledger.records(STATE_PREFIX)) {
    const id = key.slice(STATE_PREFIX.length);
    const state = parseState(text);
    if (state === undefined) {
      logger.warn(`[controller] journal: cannot read the state of tenant API "${id}"`);
      continue;
    }
    const { progress, hasOwnNodes, watches } = state;
    const observation = observe(id);
    const prefix = `${TIMELINE_PREFIX}${id}/`;
    const restore = createTimelineRestorer({ ledger, prefix, watches, logger });
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
    restored.push({ id, observation, progress, hasOwnNodes, resume });
  }
  return restored;
}

/** Writes what changed since the last call. */
export interface TenantJournal {
  drain(scopes: readonly TenantScope[], now: number): readonly RecordChange[];
}

export function createTenantJournal(): TenantJournal {
  const written = new Map<string, string>();
  return {
    drain: (scopes, now) =>
      scopes.flatMap(({ tenant, progress }) => {
        const { id, observation, hasOwnNodes } = tenant;
        const prefix = `${TIMELINE_PREFIX}${id}/`;
        const { pods, nodes, volumes, loadBalancers, resourceClaims, resourceSlices } = observation;
        const watches = tenant.watchPoints(now);
        // Part of a first list is nothing that a restart could go on from.
        const changesOf = <T extends Projected, S>(timelines: Timelines<T, S>) =>
          timelines.kind in watches ? timelineChanges(prefix, timelines) : [];
        const changes = [
          ...changesOf(pods),
          ...changesOf(nodes),
          ...changesOf(resourceClaims),
          ...changesOf(resourceSlices),
          ...changesOf(volumes),
          ...changesOf(loadBalancers),
        ];
        const state: TenantState = { progress, hasOwnNodes, watches };
        const value = encodeJson({ v: JOURNAL_VERSION, state });
        if (written.get(id) === value) return changes;
        written.set(id, value);
        return [...changes, { key: STATE_PREFIX + id, value }];
      }),
  };
}

/** The changes that take everything of a tenant cluster out of the journal. */
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

function parseState(text: string): TenantState | undefined {
  const stored = decodeJson(text);
  if (!isRecord(stored)) return undefined;
  const { v, state } = stored as { v?: unknown; state?: TenantState };
  return v === JOURNAL_VERSION ? state : undefined;
}
