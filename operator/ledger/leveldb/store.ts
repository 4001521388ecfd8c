import { join } from 'node:path';
import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import type { LedgerFailure } from '../ledger.ts';
import {
  type Database,
  noteDatabaseTables,
  openDatabase,
  readManifestNote,
  writeBatch,
} from './database.ts';
import type { Failpoints } from './failpoints.ts';
import { ledgerFailure } from '../failures.ts';
import { toLedgerFailure } from './failures.ts';
import type { StoreView } from './find-stored.ts';
import type { HeadFile } from './head-file.ts';
import { IdFilter } from './id-filter.ts';
import { type BatchPlan, type LevelRequest, planBatch } from './plan-batch.ts';
import type { PageStarts } from './page-starts.ts';
import { parseInstant } from './parse-instant.ts';
import { dropEntries, NextSegment, planRoll } from './roll-segment.ts';
import { isFull, type SegmentLimits } from './segment-limits.ts';
import { listSegmentDirectories, segmentName } from './segment-names.ts';
import type { SegmentPool } from './segment-pool.ts';
import { type Contents, readContents } from './state.ts';
import type { WriteRequestOutcome } from '../writer.ts';

export interface StoreOptions {
  readonly directory: string;
  readonly database: Database;
  readonly contents: Contents;
  readonly ids: IdFilter;
  readonly head: HeadFile;
  /** Records the window starts of stored events. */
  readonly pages: PageStarts;
  readonly pool: SegmentPool;
  readonly clock: Clock;
  readonly limits: SegmentLimits;
  /** RETENTION, milliseconds. */
  readonly retentionMs: number;
  readonly failpoint: Failpoints;
  readonly deduplicate: boolean;
  /** Frees space. Called after a write failed on a full volume, before the database is reopened. */
  readonly freeSpace: () => Promise<void>;
  readonly onConflict: (event: UsageEvent) => void;
  readonly onSealed: (end: { readonly sequence: number; readonly chain: string }) => void;
  readonly onError: (failure: LedgerFailure) => void;
}

/** A failed write whose result is unknown until the database is reopened. */
interface Interrupted {
  readonly planned: Contents;
  readonly failure: LedgerFailure;
}

const ATTEMPTS = 3;
const NOTE_INTERVAL_MS = 10_000;
/** Up to so many entries are copied while writes wait, and the sealed segment keeps its own. */
const FEW_ENTRIES = 10_000;

/** The segments of a ledger. Only the store writes to them, one batch at a time. */
export class Store {
  /** Without the first segment's objects, which would otherwise never be freed. */
  readonly #options: Omit<StoreOptions, 'database' | 'contents' | 'ids'>;
  #database: Database;
  #contents: Contents;
  #ids: IdFilter;
  #interrupted: Interrupted | undefined;
  /** The next segment while it is prepared. */
  #next: NextSegment | undefined;
  #stopped: LedgerFailure | undefined;
  #notedAt: number;
  /** The storing of table checksums under way. Writes do not wait for it. */
  #noting: Promise<void> = Promise.resolve();
  /** RETENTION, milliseconds; may be changed. */
  retentionMs: number;
  /** HEAD must not be overwritten before it was compared with the stored events. */
  #compared = false;

  constructor({ database, contents, ids, ...options }: StoreOptions) {
    this.#options = options;
    this.#database = database;
    this.#contents = contents;
    this.#ids = ids;
    this.#notedAt = options.clock.monotonic();
    this.retentionMs = options.retentionMs;
  }

  contents(): Contents {
    return this.#contents;
  }

  view(): StoreView {
    return {
      active: this.#database,
      activeName: this.#activeName(),
      segment: this.#contents.state.segment,
      link: this.#contents.state.link,
      ids: this.#ids,
      sealed: this.#contents.sealed,
      pool: this.#options.pool,
      deduplicate: this.#options.deduplicate,
    };
  }

  /** Writes one batch. After a write error it reopens the database and finds what was stored. */
  async write(requests: readonly LevelRequest[]): Promise<readonly WriteRequestOutcome[]> {
    let failure: LedgerFailure = ledgerFailure('retryable', 'ledger: not open');
    for (let tries = 0; tries < ATTEMPTS; tries++) {
      const stopped = this.#stopped;
      if (stopped !== undefined) return requests.map(() => stopped);
      if (this.#interrupted === undefined) await this.#rollIfDue(requests);
      const refusal =
        this.#interrupted === undefined ? undefined : await this.#recover(this.#interrupted);
      const result = refusal ?? (await this.#attempt(requests));
      if (!('kind' in result)) return result;
      failure = result;
    }
    return requests.map(() => failure);
  }

  /** Seals the active segment with damage found in it; begins one at `firstSequence`, or throws. */
  async roll(firstSequence: number, damage?: string): Promise<void> {
    const { directory, clock, failpoint, pool, onSealed } = this.#options;
    const planned = planRoll(this.#contents, firstSequence, clock.now(), damage);
    const { lastSequence: sequence, chain } = this.#contents.state.segment;
    const next = await this.#prepareNext();
    try {
      await next.finish(planned);
      this.#next = undefined;
    } catch (error) {
      await this.#abandonNext();
      throw error;
    }
    // From here on the new segment is the active one, even if opening it fails.
    try {
      await failpoint('roll:before-open');
      const database = await openDatabase(join(directory, segmentName(firstSequence)), 'active');
      await this.#noting;
      await pool.adopt(this.#contents.state.segment.firstSequence, this.#database);
      this.#database = database;
      this.#ids = new IdFilter();
      this.#adopt(planned);
      await this.note();
      onSealed({ sequence, chain });
      void this.#dropEntries(planned);
    } catch (error) {
      this.#interrupted = { planned, failure: toLedgerFailure('beginning a segment', error) };
      throw error;
    }
  }

  /**
   * Durably writes the newest batch and the active segment's MANIFEST to HEAD. Begins to store the
   * checksums of new tables.
   */
  async note(): Promise<void> {
    const { directory, head, clock } = this.#options;
    const database = this.#database;
    this.#noting = this.#noting.then(() => noteDatabaseTables(database));
    // The MANIFEST grows while the segment is open.
    const manifest = await readManifestNote(join(directory, this.#activeName()));
    const { batch, segment } = this.#contents.state;
    const { lastSequence: sequence, chain } = segment;
    const { epoch } = head.current();
    const name = this.#activeName();
    await head.noteDurably({ epoch, batch, sequence, chain, segment: name, manifest });
    this.#notedAt = clock.monotonic();
    this.#compared = true;
  }

  async close(): Promise<void> {
    const healthy =
      this.#compared && this.#interrupted === undefined && this.#stopped === undefined;
    if (healthy && this.#isOurs()) await this.#noteQuietly();
    await this.#noting;
    await this.#abandonNext();
    await this.#database.close();
    await this.#options.pool.close();
    await this.#options.head.close();
  }

  async #attempt(
    requests: readonly LevelRequest[],
  ): Promise<readonly WriteRequestOutcome[] | LedgerFailure> {
    const { clock, head, onConflict } = this.#options;
    const { lastSequence } = this.#contents.state.segment;
    try {
      const slice = new TimeSlice(clock);
      const plan = await planBatch(requests, this.#contents, this.view(), clock.now(), slice);
      if (!head.owned()) {
        return this.#stop(ledgerFailure('fenced', 'ledger: another process has opened it'));
      }
      const failure = plan.operations.length === 0 ? undefined : await this.#commit(plan, slice);
      if (failure !== undefined) return failure;
      this.#learn(plan.events, lastSequence + 1);
      for (const event of plan.conflicts) onConflict(event);
      if (clock.monotonic() - this.#notedAt >= NOTE_INTERVAL_MS) await this.#noteQuietly();
      return plan.outcomes;
    } catch (error) {
      return toLedgerFailure('preparing a batch', error);
    }
  }

  #learn(stored: readonly UsageEvent[], first: number): void {
    const { pages } = this.#options;
    for (const [index, event] of stored.entries()) {
      pages.note(first + index, parseInstant(event.window_start));
    }
  }

  /** Writes a planned batch. After a failure the batch is not stored, or its result is unknown. */
  async #commit(plan: BatchPlan, slice: TimeSlice): Promise<LedgerFailure | undefined> {
    const { failpoint, onError } = this.#options;
    try {
      await failpoint('append:before-write');
      await writeBatch(this.#database, plan.operations, slice);
      this.#next?.noteChanges(plan.operations);
      await failpoint('append:after-write');
      this.#adopt(plan.contents);
      return undefined;
    } catch (error) {
      const failure = toLedgerFailure('writing', error);
      onError(failure);
      this.#interrupted = { planned: plan.contents, failure };
      const refusal = await this.#recover(this.#interrupted);
      if (refusal !== undefined) return refusal;
      return this.#contents.state.batch === plan.contents.state.batch ? undefined : failure;
    }
  }

  /** Reopens the database after a failed write. Returns why it is unknown what is stored, if so. */
  async #recover({ planned, failure }: Interrupted): Promise<LedgerFailure | undefined> {
    const { directory, failpoint, freeSpace } = this.#options;
    try {
      await this.#noting;
      await this.#abandonNext();
      await this.#database.close();
      if (failure.cause === 'full') await freeSpace();
      await failpoint('recover:before-open');
      const { segments } = await listSegmentDirectories(directory);
      const name = segmentName(segments.at(-1) ?? 0);
      this.#database = await openDatabase(join(directory, name), 'active');
      const found = await readContents(this.#database, name);
      const expected = [this.#contents, planned].find(
        (candidate) =>
          candidate.state.batch === found.state.batch &&
          candidate.state.segment.chain === found.state.segment.chain,
      );
      if (expected === undefined) {
        const { batch } = this.#contents.state;
        const text = `batch ${batch} was acknowledged, but after an error the newest is: "${found.state.batch}"`;
        return this.#stop(ledgerFailure('corrupt', `ledger: ${name}: ${text}`));
      }
      this.#interrupted = undefined;
      this.#adopt(found);
      await this.note();
      return undefined;
    } catch (error) {
      const again = toLedgerFailure('reopening after an error', error);
      this.#interrupted = { planned, failure: again };
      return again;
    }
  }

  async #rollIfDue(requests: readonly LevelRequest[]): Promise<void> {
    const { clock, limits, onError } = this.#options;
    const { segment, entries } = this.#contents.state;
    const { lastSequence } = segment;
    const heads = requests.map((request) => (request.kind === 'skip' ? request.head : 0));
    const skipped = Math.max(lastSequence, ...heads);
    const skips = skipped > lastSequence;
    const isDue =
      skips ||
      this.#next !== undefined ||
      (requests.some(hasEvents) && isFull(segment, limits, this.retentionMs, clock.now()));
    if (!isDue) return;
    try {
      const next = await this.#prepareNext();
      if (skips || next.isCopied || entries.count <= FEW_ENTRIES) await this.roll(skipped + 1);
    } catch (error) {
      // The old segment stays active; the next batch tries again.
      onError(toLedgerFailure('beginning a segment', error));
    }
  }

  #adopt(after: Contents): void {
    const { head } = this.#options;
    this.#contents = after;
    const { batch, segment } = after.state;
    const { lastSequence: sequence, chain } = segment;
    head.note({ ...head.current(), batch, sequence, chain });
  }

  async #noteQuietly(): Promise<void> {
    await this.note().catch((error: unknown) => {
      this.#options.onError(toLedgerFailure('writing HEAD', error));
    });
  }

  async #prepareNext(): Promise<NextSegment> {
    const { directory, failpoint } = this.#options;
    const [database, name] = [this.#database, this.#activeName()];
    this.#next ??= await NextSegment.create(directory, database, name, failpoint);
    return this.#next;
  }

  async #abandonNext(): Promise<void> {
    await this.#next?.abandon();
    this.#next = undefined;
  }

  /**
   * Deletes the entries of the segment that was sealed last, if they are many and it is intact.
   * Writes do not wait for it.
   */
  async #dropEntries({ sealed, state }: Contents): Promise<void> {
    const line = sealed.at(-1);
    if (line === undefined || line.damage !== undefined) return;
    if (state.entries.count <= FEW_ENTRIES) return;
    await this.#options.pool.use(line, dropEntries).catch((error: unknown) => {
      this.#options.onError(toLedgerFailure('deleting the entries of a sealed segment', error));
    });
  }

  #stop(failure: LedgerFailure): LedgerFailure {
    this.#stopped = failure;
    this.#options.onError(failure);
    return failure;
  }

  #isOurs(): boolean {
    try {
      return this.#options.head.owned();
    } catch {
      return false;
    }
  }

  #activeName(): string {
    return segmentName(this.#contents.state.segment.firstSequence);
  }
}

function hasEvents(request: LevelRequest): boolean {
  return request.kind === 'append' && request.events.length > 0;
}
