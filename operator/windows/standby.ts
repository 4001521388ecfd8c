import type { Settings } from '../config/settings.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { least } from '../model/extremes.ts';
import type { HeardRounds } from '../observation/heard-rounds.ts';
import type { Observation } from '../observation/observation.ts';
import { sampleHoldMs } from '../observation/usage-samples.ts';
import type { Clock } from '../telemetry/clock.ts';
import { type CollectorState, decodeState, STATE_KEY } from './journal.ts';
import { journalledKinds } from './journalled-kinds.ts';
import { NodeRefresh } from './node-refresh.ts';
import type { CollectorSources } from './scope.ts';
import { createScopes, type Scopes } from './scopes.ts';
import { NO_TENANT_OBJECTS } from './tenant-scopes.ts';

export interface StandbyOptions {
  readonly observation: Observation;
  readonly sources: CollectorSources;
  /** What the watches resumed from. */
  readonly restored: CollectorState | undefined;
  readonly ledger: Pick<Ledger, 'record' | 'stats'>;
  readonly settings: () => Settings;
  readonly clock: Clock;
  readonly rounds: Pick<HeardRounds, 'forget'>;
}

const LOOK_MS = 250;

/**
 * Keeps the timelines of a process that closes no windows as those of one that does: what its windows have billed is
 * settled here, and nothing is held for a journal that somebody else writes. Ends with the signal, when whoever takes over
 * ({@link adoptJournal}) may go on from them.
 */
export async function keepWarm(options: StandbyOptions, signal: AbortSignal): Promise<void> {
  const { observation, ledger, settings, clock, restored, rounds } = options;
  if (signal.aborted) return;
  const scopes = createScopes({
    ...options,
    tenants: NO_TENANT_OBJECTS,
    restoredTenants: new Map(),
    wantedMs: () => settings().metering.windowMs,
    lastWindowEnd: ledger.stats().lastWindowEnd,
    startedAt: clock.now(),
    windowMs: settings().metering.windowMs,
    restored,
  });
  const nodes = new NodeRefresh(options);
  const listed = scopes.awaitLists(signal);
  let closed = ledger.stats().lastWindowEnd;
  while (!signal.aborted) {
    if (scopes.host.some(({ scope, listed: isListed }) => isListed && scope.name === 'pods')) {
      await nodes.refresh();
    }
    const { lastWindowEnd } = ledger.stats();
    if (lastWindowEnd !== closed) {
      const text = await ledger.record(STATE_KEY).catch(() => undefined);
      if (signal.aborted) break;
      const state = decodeState(text) as CollectorState | undefined;
      if (state !== undefined) {
        settle(scopes, state);
        for (const { timelines } of journalledKinds(observation)) timelines.drain();
        rounds.forget(state.tenantClustersObservedAt);
        const { windowMs, maxBackfillMs } = settings().metering;
        const oldest = least(scopes.host.map(({ progress }) => progress.end));
        observation.usage.prune(oldest, sampleHoldMs(windowMs));
        observation.tenantClusters.prune(oldest - maxBackfillMs);
        closed = lastWindowEnd;
      }
    }
    await clock.sleep(LOOK_MS, signal).catch(() => undefined);
  }
  await listed;
}

/** Of namespaces that are apart there it is kept longer than it need be, or not as long: the journal has it. */
function settle({ host }: Scopes, state: CollectorState): void {
  for (const each of host) {
    const progress = Object.entries(state.scopes).find(([name]) => name === each.scope.name)?.[1];
    if (progress === undefined || progress.end <= each.progress.end) continue;
    each.progress = progress;
    for (const timelines of each.scope.timelines) timelines.settle(progress.end);
  }
}
