import type { RecordChange } from '../../ledger/ledger.ts';
import {
  createUncertainLetters,
  type UncertainLetters,
  type Doubts,
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

/** What an operator may do about a destination (docs/explanation/delivery.md#operations). Letters are named by event id. */
export interface Operations {
  /** Dead letters after a sequence number, in order; those on their way once more included. */
  deadLetters(after: number, limit: number): Promise<DeadLetterPage>;
  /**
   * Sends letters once more, those of closed periods and those that may be billed twice by force only; all of them when no
   * ids are given.
   */
  replay(ids: readonly string[] | undefined, force?: boolean): Promise<ReplayOutcome>;
  /** Gives letters up for good; all of them when no ids are given. */
  discard(ids: readonly string[] | undefined): Promise<DiscardOutcome>;
  /**
   * Puts the cursor at a position between the oldest stored event and the newest; back over usage of closed
   * periods by force only.
   */
  moveCursor(sequence: number, force?: boolean): Promise<MoveOutcome>;
}

interface OperationsOptions extends CursorMovesOptions {
  readonly deadLetters: DeadLetterIndex;
  readonly inFlight: InFlight;
  readonly clock: Clock;
  readonly replays: ReplayLane;
  /** Runs an action while the feeder stands still. */
  readonly paused: <T>(action: () => Promise<T>) => Promise<T>;
  /** There are letters to send: a feeder that is blocked tries at once. */
  readonly sendNow: () => void;
}

/** What a replay would do besides sending. */
interface Reach {
  readonly wantsForce: boolean;
  /** For people. */
  readonly reason?: string;
  readonly doubts?: Doubts;
}

export class FeedOperations implements Operations {
  readonly #options: OperationsOptions;
  readonly #moves: CursorMoves;
  readonly #uncertainLetters: UncertainLetters;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: OperationsOptions) {
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
    let reach: Reach = { wantsForce: false };
    const failed = await this.#inSlice(async () => {
      reach = await this.#reachOf(ids);
      if (reach.wantsForce && !force) return undefined;
      const isForced = (letter: SetAsideEvent): boolean =>
        force && reach.doubts?.isUncertain(letter) === true;
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
        unknown.met,
      );
    });
    const { wantsForce, reason = '' } = reach;
    if (wantsForce && !force) return { kind: 'wants-force', reason };
    if (failed !== undefined && marked.length === 0) return failed;
    const result = replays.follow(marked);
    replays.wake();
    sendNow();
    const forced = force && reason !== '' ? { forced: reason } : {};
    return { kind: 'replayed', ...(await result), ...unknown.left(failed), ...forced };
  }

  /** What is to be known before the letters that are meant are sent once more. */
  async #reachOf(ids: readonly string[] | undefined): Promise<Reach> {
    const closed = await this.#options.closedPeriods(this.#deadAmong(ids));
    const doubts = await this.#uncertainLetters(this.#deadAmong(ids));
    const texts = [closed, doubts?.text].filter((text) => text !== undefined);
    return {
      wantsForce: closed !== undefined || doubts?.wantsForce === true,
      ...(texts.length > 0 && { reason: texts.join('; ') }),
      doubts,
    };
  }

  async discard(ids: readonly string[] | undefined): Promise<DiscardOutcome> {
    const { records, deadLetters, ledger, settings } = this.#options;
    let discarded = 0;
    const unknown = unknownAmong(ids);
    const failed = await this.#inSlice(() =>
      this.#changeDead(
        ids,
        async (letters) => {
          // A letter that a rewound cursor has yet to pass is sent again all the same.
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
        unknown.met,
      ),
    );
    if (failed !== undefined && discarded === 0) return failed;
    return { kind: 'discarded', discarded, ...unknown.left(failed) };
  }

  moveCursor(sequence: number, force = false): Promise<MoveOutcome> {
    return this.#inSlice(() => this.#options.paused(() => this.#moves.moveTo(sequence, force)));
  }

  /** One operation at a time, so that none works on what another has just changed. */
  #inSlice<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(action, action);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  /** Changes the letters that are meant, a chunk at a time; `met` is given the ids that name one. */
  async #changeDead(
    ids: readonly string[] | undefined,
    changesOf: (letters: readonly SetAsideEvent[]) => Promise<readonly RecordChange[]>,
    changed: (letters: readonly SetAsideEvent[]) => void,
    met: (id: string) => void,
  ): Promise<OperationFailed | undefined> {
    const { ledger } = this.#options;
    for (;;) {
      const letters = await firstOf(this.#deadAmong(ids, met), CHUNK);
      if (letters.length === 0) return undefined;
      const failed = failureOf(await ledger.writeRecords(await changesOf(letters)));
      if (failed !== undefined) return failed;
      changed(letters);
    }
  }

  /** The letters that are meant; `met` is given the ids that name one. */
  async *#deadAmong(
    ids: readonly string[] | undefined,
    met?: (id: string) => void,
  ): AsyncGenerator<SetAsideEvent> {
    const wanted = ids === undefined ? undefined : new Set(ids);
    for await (const letter of this.#options.records.dead()) {
      const { id } = letter.event;
      if (wanted?.has(id) === false) continue;
      met?.(id);
      yield letter;
    }
  }
}

/** Follows which of the ids that were asked for turn up. */
function unknownAmong(ids: readonly string[] = []) {
  const unmet = new Set(ids);
  return {
    met: (id: string): void => void unmet.delete(id),
    /** Where a write failed, nobody has looked at the rest. */
    left: (failed: OperationFailed | undefined): Unknown =>
      failed !== undefined || unmet.size === 0 ? {} : { unknown: [...unmet] },
  };
}
