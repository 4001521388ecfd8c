import type { DestinationSettings } from '../../config/settings.ts';
import type { Destination } from '../../destinations/destination.ts';
import {
  type Ledger,
  LedgerReadError,
  type RecordChange,
  type WriteOutcome,
} from '../../ledger/ledger.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { ReplaySessions } from '../lanes/replay-lane.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import { type DeliveryRecords, firstOf, type KeptEvent } from '../records/delivery-records.ts';
import { addUnsent, type UnsentRanges, unsentAfter, unsentUpTo } from '../records/sequence-sets.ts';
import type { ClosedPeriods } from './closed-periods.ts';
import type {
  DeadLetterPage,
  DiscardOutcome,
  MoveOutcome,
  OperationFailed,
  ReplayOutcome,
  Unknown,
} from './outcomes.ts';

/** Records changed in one write. */
const CHUNK = 500;
/** Events that are read at once. */
const PAGE_EVENTS = 5_000;

/** What an operator may do about a destination (docs/delivery.md#operations). Letters are named by event id. */
export interface Operations {
  /** Dead letters after a sequence number, in order; those on their way once more included. */
  deadLetters(after: number, limit: number): Promise<DeadLetterPage>;
  /** Sends letters once more, those of closed periods by force only; all of them when no ids are given. */
  replay(ids: readonly string[] | undefined, force?: boolean): Promise<ReplayOutcome>;
  /** Gives letters up for good; all of them when no ids are given. */
  discard(ids: readonly string[] | undefined): Promise<DiscardOutcome>;
  /**
   * Puts the cursor at a position between the oldest stored event and the newest; back over usage of closed
   * periods by force only.
   */
  moveCursor(sequence: number, force?: boolean): Promise<MoveOutcome>;
}

export interface OperationsOptions {
  readonly settings: DestinationSettings;
  readonly destination: Pick<Destination, 'limits' | 'verify'>;
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly deadLetters: DeadLetterIndex;
  readonly replays: ReplaySessions;
  readonly closedPeriods: ClosedPeriods;
  /** Runs an action while the feeder stands still. */
  readonly paused: <T>(action: () => Promise<T>) => Promise<T>;
  /** There are letters to send. */
  readonly wakeReplay: () => void;
}

export function createOperations(options: OperationsOptions): Operations {
  return new DestinationOperations(options);
}

class DestinationOperations implements Operations {
  readonly #options: OperationsOptions;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: OperationsOptions) {
    this.#options = options;
  }

  async deadLetters(after: number, limit: number): Promise<DeadLetterPage> {
    const { records } = this.#options;
    const later = async function* (listing: AsyncIterable<KeptEvent>) {
      for await (const letter of listing) if (letter.sequence > after) yield letter;
    };
    const found = [
      ...(await firstOf(later(records.dead()), limit + 1)),
      ...(await firstOf(later(records.replay()), limit + 1)),
    ].toSorted((a, b) => a.sequence - b.sequence);
    const page = found.slice(0, limit);
    const next = found.length > limit ? page.at(-1)?.sequence : undefined;
    return { deadLetters: page, ...omitUndefined({ next }) };
  }

  async replay(ids: readonly string[] | undefined, force = false): Promise<ReplayOutcome> {
    const { settings, records, replays, closedPeriods, wakeReplay } = this.#options;
    if (settings.suspend) return { kind: 'failed', reason: 'destination is suspended' };
    const marked: number[] = [];
    const unknown = unknownAmong(ids);
    let closed: string | undefined;
    const failed = await this.#inTurn(async () => {
      closed = await closedPeriods(oneByOne(this.#deadAmong(ids)));
      if (closed !== undefined && !force) return undefined;
      return this.#changeDead(
        ids,
        async (letters) =>
          letters.flatMap((letter) => [
            records.dropDead(letter.sequence),
            records.putReplay(letter),
          ]),
        (letters) => {
          unknown.met(letters);
          for (const { sequence } of letters) marked.push(sequence);
        },
      );
    });
    if (closed !== undefined && !force) return { kind: 'wants-force', reason: closed };
    if (failed !== undefined && marked.length === 0) return failed;
    const result = replays.follow(marked);
    wakeReplay();
    const forced = omitUndefined({ forced: closed });
    return { kind: 'replayed', ...(await result), ...unknown.left(failed), ...forced };
  }

  async discard(ids: readonly string[] | undefined): Promise<DiscardOutcome> {
    const { records, deadLetters } = this.#options;
    let discarded = 0;
    const unknown = unknownAmong(ids);
    const failed = await this.#inTurn(() =>
      this.#changeDead(
        ids,
        async (letters) => {
          // A letter that a rewound cursor has yet to pass is sent again all the same.
          const position = this.#position() ?? 0;
          const passed = letters.filter(({ sequence }) => sequence <= position);
          const unsent = passed.reduce(
            (all, { sequence: at }) => addUnsent(all, at, at),
            await this.#unsent(),
          );
          return [
            ...letters.map(({ sequence }) => records.dropDead(sequence)),
            records.putUnsent(unsent),
          ];
        },
        (letters) => {
          unknown.met(letters);
          discarded += letters.length;
          for (const { sequence, event } of letters) deadLetters.remove(sequence, event.tenant);
        },
      ),
    );
    if (failed !== undefined && discarded === 0) return failed;
    return { kind: 'discarded', discarded, ...unknown.left(failed) };
  }

  moveCursor(sequence: number, force = false): Promise<MoveOutcome> {
    const { ledger, destination, closedPeriods, paused } = this.#options;
    return this.#inTurn(() =>
      paused(async () => {
        const [low, head] = [ledger.lowWater(), ledger.head()];
        if (sequence < low || sequence > head) {
          const reason = `cursor outside of what is stored, ${low} to ${head}: cursor: "${sequence}"`;
          return { kind: 'failed', reason };
        }
        const position = this.#position() ?? sequence;
        const forward = sequence > position;
        const closed = forward
          ? undefined
          : await closedPeriods(this.#between(sequence, position, force));
        if (closed !== undefined && !force) return { kind: 'wants-force', reason: closed };
        const failed = await (forward ? this.#skip(position, sequence) : this.#rewind(sequence));
        if (failed !== undefined) return failed;
        const warnings = moveWarnings(position, sequence, destination);
        return { kind: 'moved', sequence, warnings, ...omitUndefined({ forced: closed }) };
      }),
    );
  }

  /** One operation at a time, so that none works on what another has just changed. */
  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(action, action);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  /** Changes the letters that are meant, a chunk at a time; `changed` is given those that were changed. */
  async #changeDead(
    ids: readonly string[] | undefined,
    changesOf: (letters: readonly KeptEvent[]) => Promise<readonly RecordChange[]>,
    changed: (letters: readonly KeptEvent[]) => void,
  ): Promise<OperationFailed | undefined> {
    const { ledger } = this.#options;
    for (;;) {
      const letters = await firstOf(this.#deadAmong(ids), CHUNK);
      if (letters.length === 0) return undefined;
      const failed = failureOf(await ledger.writeRecords(await changesOf(letters)));
      if (failed !== undefined) return failed;
      changed(letters);
    }
  }

  async *#deadAmong(ids: readonly string[] | undefined): AsyncGenerator<KeptEvent> {
    const wanted = ids === undefined ? undefined : new Set(ids);
    for await (const letter of this.#options.records.dead()) {
      if (wanted?.has(letter.event.id) ?? true) yield letter;
    }
  }

  /** The stored events behind a position, up to another. What cannot be read is passed over by force only. */
  async *#between(
    after: number,
    to: number,
    force: boolean,
  ): AsyncGenerator<readonly QueuedEvent[]> {
    let position = after;
    while (position < to) {
      const page = await this.#options.ledger.read(position, PAGE_EVENTS);
      if (page.kind === 'failed' && !force) throw new LedgerReadError(page);
      if (page.kind === 'failed' || page.events.length === 0) return;
      yield page.events.filter(({ sequence }) => sequence <= to);
      position = page.lastSequence;
    }
  }

  /** What is skipped is noted in the write that skips it, but for what was passed once before. */
  async #skip(from: number, to: number): Promise<OperationFailed | undefined> {
    const { settings, records, ledger } = this.#options;
    const passed = Math.max(from, (await records.state())?.resentUntil ?? 0);
    const unsent = addUnsent(await this.#unsent(), passed + 1, to);
    const commit = { from, records: [records.putUnsent(unsent)] };
    return failureOf(await ledger.commitCursor(settings.name, to, commit));
  }

  async #rewind(sequence: number): Promise<OperationFailed | undefined> {
    const { settings, records, ledger } = this.#options;
    const position = this.#position();
    if (position !== undefined && sequence < position) {
      const state = (await records.state()) ?? { type: settings.type };
      const resentUntil = Math.max(position, state.resentUntil ?? 0);
      const noted = await ledger.writeRecords([
        records.putState({ ...state, resentUntil }),
        records.putUnsent(unsentUpTo(await this.#unsent(), sequence)),
      ]);
      if (noted.kind === 'failed') return failureOf(noted);
    }
    return failureOf(await ledger.moveCursor(settings.name, sequence));
  }

  async #unsent(): Promise<UnsentRanges> {
    const { records, ledger } = this.#options;
    return unsentAfter(await records.unsent(), ledger.lowWater());
  }

  #position(): number | undefined {
    const { ledger, settings } = this.#options;
    return ledger.cursors().find(({ destination }) => destination === settings.name)?.sequence;
  }
}

async function* oneByOne<T>(listing: AsyncIterable<T>): AsyncGenerator<readonly T[]> {
  for await (const item of listing) yield [item];
}

/** Follows which of the ids that were asked for turn up. */
function unknownAmong(ids: readonly string[] = []) {
  const unmet = new Set(ids);
  return {
    met: (letters: readonly KeptEvent[]): void => {
      for (const { event } of letters) unmet.delete(event.id);
    },
    /** Where a write failed, nobody has looked at the rest. */
    left: (failed: OperationFailed | undefined): Unknown =>
      failed !== undefined || unmet.size === 0 ? {} : { unknown: [...unmet] },
  };
}

function failureOf(outcome: WriteOutcome): OperationFailed | undefined {
  return outcome.kind === 'failed' ? { kind: 'failed', reason: outcome.message } : undefined;
}

const HOUR_MS = 3_600_000;

/** What an operator should know who moves a cursor by hand. */
function moveWarnings(
  from: number,
  to: number,
  { limits, verify }: Pick<Destination, 'limits' | 'verify'>,
): readonly string[] {
  if (to > from) return [`${to - from} events are skipped: they will not be delivered`];
  if (to === from) return [];
  const warnings = [`${from - to} events are sent again`];
  const { idMemoryMs, maxAgeMs } = limits;
  if (idMemoryMs !== undefined) {
    const check =
      verify === undefined ? 'become dead letters' : 'are asked after before they are sent';
    warnings.push(
      `the destination remembers ids for ${idMemoryMs / HOUR_MS} hours: events that it may have had before ${check}`,
    );
  }
  if (maxAgeMs !== undefined) {
    warnings.push(
      `events older than ${maxAgeMs / HOUR_MS} hours are not accepted and become dead letters`,
    );
  }
  return warnings;
}
