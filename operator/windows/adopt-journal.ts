import type { Projected } from '../kubernetes/source.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { HeardRounds } from '../observation/heard-rounds.ts';
import type { Observation } from '../observation/observation.ts';
import type { Timelines } from '../observation/timelines.ts';
import type { Clock } from '../telemetry/clock.ts';
import { Turn } from '../telemetry/turn.ts';
import {
  type CollectorState,
  readJournalHead,
  readTimelines,
  type RestoringParts,
  TIMELINE_PREFIX,
  unreadableText,
} from './journal.ts';
import { journalledKinds } from './journalled-kinds.ts';

/** What a process has that stands by. */
export interface AdoptingParts extends RestoringParts {
  readonly clock: Pick<Clock, 'monotonic' | 'now'>;
  readonly rounds: Pick<HeardRounds, 'since'>;
}

/**
 * What the process before has left in the journal, for one that has watched as well: its timelines go on from there
 * ({@link Timelines.adopt}), and its tenant clusters with what was found since. Gives how far windows were closed; undefined where none
 * ever was.
 */
export async function adoptJournal(
  ledger: Pick<Ledger, 'record' | 'records'>,
  observation: Observation,
  { logger, clock, rounds }: AdoptingParts,
): Promise<CollectorState | undefined> {
  const { state, tenantClusters: written, isOwnProjection } = await readJournalHead(ledger, logger);
  const comparedAt = isOwnProjection ? undefined : clock.now();
  const turn = new Turn(clock);
  const adopt = async (
    timelines: Timelines<Projected, unknown>,
    settled: number | undefined,
  ): Promise<void> => {
    const prefix = `${TIMELINE_PREFIX}${timelines.kind}/`;
    const { read, unreadable } = await readTimelines<Projected, unknown>(ledger, prefix, turn);
    const isWhole = settled !== undefined && timelines.kind in (state?.watches ?? {});
    if (isWhole && unreadable.length === 0) {
      timelines.adopt(read, settled, comparedAt);
      return;
    }
    // The journal tells of a part only: what is watched here is written anew, and nothing of it billed late.
    if (unreadable.length > 0) logger.warn(unreadableText(timelines.kind, unreadable));
    timelines.adopt(undefined, settled ?? -Infinity);
    const missing = read.filter((timeline) => !timelines.has(timeline.view));
    timelines.discard([...unreadable, ...missing.map(({ uid }) => uid)]);
  };
  for (const { timelines, scope } of journalledKinds(observation)) {
    await adopt(timelines, state?.scopes[scope]?.end);
  }
  if (state === undefined) return undefined;
  const { tenantClusters } = observation;
  const observedAt = state.tenantClustersObservedAt;
  tenantClusters.restore(written, observedAt);
  for (const round of rounds.since(observedAt, written)) {
    tenantClusters.observe(round.clusters, round.at);
  }
  return state;
}
