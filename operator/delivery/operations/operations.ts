import pLimit from 'p-limit';
import type { RecordChange } from '../../ledger/ledger.ts';
import {
  createUncertainLetters,
  type UncertainLetters,
  type Uncertainty,
} from './uncertain-dead-letters.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { InFlight } from '../records/in-flight.ts';
import type { ReplayLane } from '../lanes/replay-lane.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import { firstOf, type SetAsideEvent } from '../records/delivery-records.ts';
import { addUnsent } from '../records/sequence-sets.ts';
import { CursorMoves, type CursorMovesOptions, cursorOf, unsentOf } from './cursor-moves.ts';
import {
  type DeadLetterPage,
  type DiscardOutcome,
  failureOf,
  type MoveOutcome,
  type OperationFailed,
  type ReplayOutcome,
  type Unknown,
} from './outcomes.ts';

/** Records changed in one write. */
const CHUNK = 500;

/** Manual operations (docs/explanation/delivery.md#operations). An event id names a letter. */
export interface Operations {
  /** Returns dead letters after a sequence number, in order, with those in replay. */
  deadLetters(after: number, limit: number): Promise<DeadLetterPage>;
  /**
   * Sends letters again; without ids, all of them. Letters of closed periods, and letters that may
   * be billed twice, need `force`.
   */
  replay(ids: readonly string[] | undefined, force?: boolean): Promise<ReplayOutcome>;
  /** Discards letters for good; without ids, all of them. */
  discard(ids: readonly string[] | undefined): Promise<DiscardOutcome>;
  /**
   * Moves the cursor to a position between the oldest and the newest stored event. A move back over
   * usage of closed periods needs `force`.
   */
  moveCursor(sequence: number, force?: boolean): Promise<MoveOutcome>;
}

interface ReplayRisks {
  readonly wantsForce: boolean;
  /** For people. */
  readonly reason?: string;
  readonly uncertainty?: Uncertainty;
}

export class FeedOperations implements Operations {
  readonly #options;
  readonly #moves: CursorMoves;
  readonly #uncertainLetters: UncertainLetters;
  /** Runs one operation at a time, so that none works on records that another one changes. */
  readonly #inOrder = pLimit(1);

  constructor(
    options: CursorMovesOptions & {
      readonly deadLetters: DeadLetterIndex;
      readonly inFlight: InFlight;
      readonly clock: Clock;
      readonly replays: ReplayLane;
      /** Runs an action while the feeder is paused. */
      readonly paused: <T>(action: () => Promise<T>) => Promise<T>;
      /** Wakes the feeder to send letters. A blocked feeder tries at once. */
      readonly sendNow: () => void;
    },
  ) {
    this.#options = options;
    this.#moves = new CursorMoves(options);
    this.#uncertainLetters = createUncertainLetters(options);
  }

  async deadLetters(after: number, limit: number): Promise<DeadLetterPage> {
    const { records } = this.#options;
    const later = async function* (listing: AsyncIterable<SetAsideEvent>) {
      for await (const letter of listing) if (letter.sequence > after) yield letter;
    };
    const found = [
      ...(await firstOf(later(records.dead()), limit + 1)),
      ...(await firstOf(later(records.replay()), limit + 1)),
    ].toSorted((a, b) => a.sequence - b.sequence);
    const page = found.slice(0, limit);
    const next = found.length > limit ? page.at(-1)?.sequence : undefined;
    return { deadLetters: page, next };
  }

  async replay(ids: readonly string[] | undefined, force = false): Promise<ReplayOutcome> {
    const { settings, records, replays, sendNow } = this.#options;
    if (settings.suspend) return { kind: 'failed', reason: 'destination is suspended' };
    const marked: number[] = [];
    const unknown = unknownAmong(ids);
    let reach: ReplayRisks = { wantsForce: false };
    const failed = await this.#inOrder(async () => {
      reach = await this.#reachOf(ids);
      if (reach.wantsForce && !force) return undefined;
      const isForced = (letter: SetAsideEvent): boolean =>
        force && reach.uncertainty?.isUncertain(letter) === true;
      return this.#changeDead(
        ids,
        async (letters) =>
          letters.flatMap((letter) => [
            records.dropDead(letter.sequence),
            records.putReplay({ ...letter, ...(isForced(letter) && { forced: true }) }),
          ]),
        (letters) => {
          for (const { sequence } of letters) marked.push(sequence);
        },
        unknown.found,
      );
    });
    const { wantsForce, reason = '' } = reach;
    if (wantsForce && !force) return { kind: 'wants-force', reason };
    if (failed !== undefined && marked.length === 0) return failed;
    const result = replays.follow(marked);
    replays.wake();
    sendNow();
    const forced = force && reason !== '' ? { forced: reason } : {};
    return { kind: 'replayed', ...(await result), ...unknown.remaining(failed), ...forced };
  }

  async #reachOf(ids: readonly string[] | undefined): Promise<ReplayRisks> {
    const closed = await this.#options.closedPeriods(this.#deadAmong(ids));
    const uncertainty = await this.#uncertainLetters(this.#deadAmong(ids));
    const texts = [closed, uncertainty?.text].filter((text) => text !== undefined);
    return {
      wantsForce: closed !== undefined || uncertainty?.wantsForce === true,
      ...(texts.length > 0 && { reason: texts.join('; ') }),
      uncertainty,
    };
  }

  async discard(ids: readonly string[] | undefined): Promise<DiscardOutcome> {
    const { records, deadLetters, ledger, settings } = this.#options;
    let discarded = 0;
    const unknown = unknownAmong(ids);
    const failed = await this.#inOrder(() =>
      this.#changeDead(
        ids,
        async (letters) => {
          // A letter after a rewound cursor is sent again in any case.
          const position = cursorOf(ledger, settings.name) ?? 0;
          const passed = letters.filter(({ sequence }) => sequence <= position);
          const unsent = passed.reduce(
            (all, { sequence }) => addUnsent(all, sequence, sequence),
            await unsentOf(records, ledger),
          );
          return [
            ...letters.map(({ sequence }) => records.dropDead(sequence)),
            records.putUnsent(unsent),
          ];
        },
        (letters) => {
          discarded += letters.length;
          for (const letter of letters) deadLetters.remove(letter);
        },
        unknown.found,
      ),
    );
    if (failed !== undefined && discarded === 0) return failed;
    return { kind: 'discarded', discarded, ...unknown.remaining(failed) };
  }

  moveCursor(sequence: number, force = false): Promise<MoveOutcome> {
    return this.#inOrder(() => this.#options.paused(() => this.#moves.moveTo(sequence, force)));
  }

  /** Changes the selected letters in chunks. Calls `found` with each id that names a letter. */
  async #changeDead(
    ids: readonly string[] | undefined,
    changesOf: (letters: readonly SetAsideEvent[]) => Promise<readonly RecordChange[]>,
    changed: (letters: readonly SetAsideEvent[]) => void,
    found: (id: string) => void,
  ): Promise<OperationFailed | undefined> {
    const { ledger } = this.#options;
    for (;;) {
      const letters = await firstOf(this.#deadAmong(ids, found), CHUNK);
      if (letters.length === 0) return undefined;
      const failed = failureOf(await ledger.writeRecords(await changesOf(letters)));
      if (failed !== undefined) return failed;
      changed(letters);
    }
  }

  /** Yields the selected letters. Calls `found` with each id that names a letter. */
  async *#deadAmong(
    ids: readonly string[] | undefined,
    found?: (id: string) => void,
  ): AsyncGenerator<SetAsideEvent> {
    const wanted = ids === undefined ? undefined : new Set(ids);
    for await (const letter of this.#options.records.dead()) {
      const { id } = letter.event;
      if (wanted?.has(id) === false) continue;
      found?.(id);
      yield letter;
    }
  }
}

/** Collects the ids that name no letter. */
function unknownAmong(ids: readonly string[] = []) {
  const unknown = new Set(ids);
  return {
    found: (id: string): void => void unknown.delete(id),
    /** Empty after a failed write, because later letters were not read. */
    remaining: (failed: OperationFailed | undefined): Unknown =>
      failed !== undefined || unknown.size === 0 ? {} : { unknown: [...unknown] },
  };
}
