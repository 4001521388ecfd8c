import { join } from 'node:path';
import type { Clock } from '../../telemetry/clock.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { LedgerFailure } from '../ledger.ts';
import {
  type Database,
  noteDatabaseTables,
  openDatabase,
  readManifestNote,
  writeBatch,
} from './database.ts';
import { type Contents, readContents } from './entries.ts';
import type { Failpoints } from './failpoints.ts';
import { ledgerFailure, toLedgerFailure } from './failures.ts';
import type { StoredEvents } from './find-stored.ts';
import type { HeadFile } from './head-file.ts';
import { createIdFilter, type IdFilter } from './id-filter.ts';
import { type BatchPlan, planBatch } from './plan-batch.ts';
import type { Request, RequestOutcome } from './requests.ts';
import { createPlannedSegment, planRoll } from './roll-segment.ts';
import { listSegmentDirectories, segmentName } from './segment-names.ts';
import type { SegmentPool } from './segment-pool.ts';

/** The segments, and the only place that writes to them: one batch at a time. */
export interface Store {
  contents(): Contents;
  places(): StoredEvents;
  /** Writes one batch. Every write error closes the database, opens it again and finds out what was stored. */
  write(requests: readonly Request[]): Promise<readonly RequestOutcome[]>;
  /** Seals the active segment, with the damage found in it, and begins one with this number. Throws when it cannot. */
  roll(firstSequence: number, damage?: string): Promise<void>;
  /** Notes the newest batch and the active segment's files in HEAD, durably. */
  note(): Promise<void>;
  close(): Promise<void>;
}

export interface StoreOptions {
  readonly directory: string;
  readonly database: Database;
  readonly contents: Contents;
  /** Of the ids in the active segment. */
  readonly ids: IdFilter;
  readonly head: HeadFile;
  readonly pool: SegmentPool;
  readonly clock: Clock;
  readonly limits: SegmentLimits;
  readonly failpoint: Failpoints;
  readonly deduplicate: boolean;
  /** Called before the database is opened again because there was no room. */
  readonly giveRoom: () => Promise<void>;
  readonly onConflict: (event: UsageEvent) => void;
  readonly onSealed: (end: { readonly sequence: number; readonly chain: string }) => void;
  readonly onError: (failure: LedgerFailure) => void;
}

/** When a new segment begins, beside the first append of a UTC day. */
export interface SegmentLimits {
  readonly events: number;
  /** Uncompressed bytes of events. */
  readonly bytes: number;
}

/** What may hold after a failed write, until the database was opened again. */
interface Interrupted {
  readonly planned: Contents;
  readonly failure: LedgerFailure;
}

const ATTEMPTS = 3;
const NOTE_INTERVAL_MS = 10_000;
const DAY_MS = 86_400_000;

export function createStore(options: StoreOptions): Store {
  const { directory, head, pool, clock, failpoint } = options;
  let { database, contents, ids } = options;
  let interrupted: Interrupted | undefined;
  let stopped: LedgerFailure | undefined;
  let notedAt = clock.monotonic();
  // Until HEAD has been compared with what is stored, it must not be overwritten.
  let compared = false;

  const activeName = (): string => segmentName(contents.state.segment.firstSequence);
  const places = (): StoredEvents => ({
    active: database,
    activeName: activeName(),
    segment: contents.state.segment,
    ids,
    sealed: contents.sealed,
    pool,
    deduplicate: options.deduplicate,
  });
  const adopt = (after: Contents): void => {
    contents = after;
    const { batch, segment } = after.state;
    const { lastSequence: sequence, chain } = segment;
    head.note({ ...head.current(), batch, sequence, chain });
  };
  /** Notes where the ledger is together with the active segment's MANIFEST, which grows meanwhile. */
  const noteSegment = async (): Promise<void> => {
    await noteDatabaseTables(database);
    const manifest = await readManifestNote(join(directory, activeName()));
    const { batch, segment } = contents.state;
    const { lastSequence: sequence, chain } = segment;
    const { epoch } = head.current();
    await head.noteDurably({ epoch, batch, sequence, chain, segment: activeName(), manifest });
    notedAt = clock.monotonic();
    compared = true;
  };
  const isOurs = (): boolean => {
    try {
      return head.owned();
    } catch {
      return false;
    }
  };
  const stop = (failure: LedgerFailure): LedgerFailure => {
    stopped = failure;
    options.onError(failure);
    return failure;
  };

  /** Closes and opens again after a failed write. Gives what is stored, or why it cannot be told. */
  const recover = async ({ planned, failure }: Interrupted): Promise<LedgerFailure | undefined> => {
    try {
      await database.close();
      if (failure.cause === 'full') await options.giveRoom();
      await failpoint('recover:before-open');
      const { segments } = await listSegmentDirectories(directory);
      const name = segmentName(segments.at(-1) ?? 0);
      database = await openDatabase(join(directory, name), 'active');
      const found = await readContents(database, name);
      const expected = [contents, planned].find(
        (candidate) =>
          candidate.state.batch === found.state.batch &&
          candidate.state.segment.chain === found.state.segment.chain,
      );
      if (expected === undefined) {
        const { batch } = contents.state;
        const text = `batch ${batch} was acknowledged, but after an error the newest is: "${found.state.batch}"`;
        return stop(ledgerFailure('corrupt', `ledger: ${name}: ${text}`));
      }
      interrupted = undefined;
      adopt(found);
      await noteSegment();
      return undefined;
    } catch (error) {
      const again = toLedgerFailure('opening it again after an error', error);
      interrupted = { planned, failure: again };
      return again;
    }
  };
  const noteQuietly = async (): Promise<void> => {
    await noteSegment().catch((error: unknown) => {
      options.onError(toLedgerFailure('noting how far it is', error));
    });
  };

  const roll = async (firstSequence: number, damage?: string): Promise<void> => {
    const planned = planRoll(contents, firstSequence, clock.now(), damage);
    const { lastSequence: sequence, chain } = contents.state.segment;
    await createPlannedSegment(directory, database, activeName(), planned, failpoint);
    // From here on the new segment counts, even if it cannot be opened at once.
    try {
      await failpoint('roll:before-open');
      const next = await openDatabase(join(directory, segmentName(firstSequence)), 'active');
      await pool.adopt(contents.state.segment.firstSequence, database);
      database = next;
      ids = createIdFilter();
      adopt(planned);
      await noteSegment();
      options.onSealed({ sequence, chain });
    } catch (error) {
      interrupted = { planned, failure: toLedgerFailure('beginning a segment', error) };
      throw error;
    }
  };
  const rollIfDue = async (): Promise<void> => {
    const { firstSequence, lastSequence, bytes, openedAt } = contents.state.segment;
    const events = lastSequence - firstSequence + 1;
    if (events === 0) return;
    const newDay = Math.floor(clock.now() / DAY_MS) > Math.floor(openedAt / DAY_MS);
    if (!newDay && events < options.limits.events && bytes < options.limits.bytes) return;
    try {
      await roll(lastSequence + 1);
    } catch (error) {
      // The old segment goes on; the next batch tries again.
      options.onError(toLedgerFailure('beginning a segment', error));
    }
  };

  /** Writes a planned batch. A failure means that it is known not to be stored, or not known at all. */
  const commit = async (plan: BatchPlan): Promise<LedgerFailure | undefined> => {
    try {
      await failpoint('append:before-write');
      await writeBatch(database, plan.operations);
      await failpoint('append:after-write');
      adopt(plan.contents);
      return undefined;
    } catch (error) {
      const failure = toLedgerFailure('writing', error);
      options.onError(failure);
      interrupted = { planned: plan.contents, failure };
      const refusal = await recover(interrupted);
      if (refusal !== undefined) return refusal;
      return contents.state.batch === plan.contents.state.batch ? undefined : failure;
    }
  };
  const attempt = async (
    requests: readonly Request[],
  ): Promise<readonly RequestOutcome[] | LedgerFailure> => {
    try {
      const plan = await planBatch(requests, contents, places(), clock.now());
      if (!head.owned()) {
        return stop(ledgerFailure('fenced', 'ledger: another process has opened it'));
      }
      const failure = plan.operations.length === 0 ? undefined : await commit(plan);
      if (failure !== undefined) return failure;
      for (const event of plan.conflicts) options.onConflict(event);
      if (clock.monotonic() - notedAt >= NOTE_INTERVAL_MS) await noteQuietly();
      return plan.outcomes;
    } catch (error) {
      return toLedgerFailure('preparing a batch', error);
    }
  };

  return {
    contents: () => contents,
    places,
    async write(requests) {
      let failure: LedgerFailure = ledgerFailure('retryable', 'ledger: not open');
      for (let tries = 0; tries < ATTEMPTS; tries++) {
        if (stopped !== undefined) return requests.map(() => stopped ?? failure);
        if (interrupted === undefined && requests.some(hasEvents)) await rollIfDue();
        const refusal = interrupted === undefined ? undefined : await recover(interrupted);
        const result = refusal ?? (await attempt(requests));
        if (!('kind' in result)) return result;
        failure = result;
      }
      return requests.map(() => failure);
    },
    roll,
    note: noteSegment,
    async close() {
      const healthy = compared && interrupted === undefined && stopped === undefined;
      if (healthy && isOurs()) await noteQuietly();
      await database.close();
      await pool.close();
      await head.close();
    },
  };
}

function hasEvents(request: Request): boolean {
  return request.kind === 'append' && request.events.length > 0;
}
