import type { DestinationSettings } from '../../config/settings.ts';
import type { Destination } from '../../destinations/destination.ts';
import {
  type Ledger,
  LedgerReadError,
  type RecordChange,
  type WriteOutcome,
} from '../../ledger/ledger.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { AggregatedRanges } from '../aggregation/ranges.ts';
import { partsOf, type QueuedEvent } from '../delivery-result.ts';
import type { ReplaySessions } from '../lanes/replay-lane.ts';
import { namesOf, partIdsOf } from './letter-parts.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import { type DeliveryRecords, firstOf, type KeptEvent } from '../records/delivery-records.ts';
import { addUnsent, type UnsentRanges, unsentAfter, unsentUpTo } from '../records/sequence-sets.ts';
import type { ClosedPeriods } from './closed-periods.ts';
import type {
  DeadLetter,
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
  readonly ranges: AggregatedRanges;
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
    const deadLetters: DeadLetter[] = [];
    for (const letter of page) {
      const partIds = await partIdsOf(this.#options.ledger, letter);
      deadLetters.push({ ...letter, ...omitUndefined({ partIds }) });
    }
    return { deadLetters, ...omitUndefined({ next }) };
  }

  async replay(ids: readonly string[] | undefined, force = false): Promise<ReplayOutcome> {
    const { settings, records, replays, closedPeriods, wakeReplay } = this.#options;
    if (settings.suspend) return { kind: 'failed', reason: 'destination is suspended' };
    const marked: number[] = [];
    const unknown = unknownAmong(ids);
    let closed: string | undefined;
    const failed = await this.#inTurn(async () => {
      closed = await closedPeriods(this.#deadAmong(ids));
      if (closed !== undefined && !force) return undefined;
      return this.#changeDead(
        ids,
        async (letters) =>
          letters.flatMap((letter) => [
            records.dropDead(letter.sequence),
            records.putReplay(letter),
          ]),
        (letters) => {
          for (const { sequence } of letters) marked.push(sequence);
        },
        unknown.met,
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
          const unsent = passed
            .flatMap(partsOf)
            .reduce((all, at) => addUnsent(all, at, at), await this.#unsent());
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
        const to = this.#wholeHours(sequence, forward);
        const closed = forward
          ? undefined
          : await closedPeriods(this.#between(to, position, force));
        if (closed !== undefined && !force) return { kind: 'wants-force', reason: closed };
        const failed = await (forward ? this.#skip(position, to) : this.#rewind(to));
        if (failed !== undefined) return failed;
        const warnings = [
          ...(to === sequence ? [] : [`moved to ${to}: what lies between is sent as one sum`]),
          ...moveWarnings(position, to, destination),
        ];
        return { kind: 'moved', sequence: to, warnings, ...omitUndefined({ forced: closed }) };
      }),
    );
  }

  /** One operation at a time, so that none works on what another has just changed. */
  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(action, action);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  /** Changes the letters that are meant, a chunk at a time; `met` is given the ids that name one. */
  async #changeDead(
    ids: readonly string[] | undefined,
    changesOf: (letters: readonly KeptEvent[]) => Promise<readonly RecordChange[]>,
    changed: (letters: readonly KeptEvent[]) => void,
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
  ): AsyncGenerator<KeptEvent> {
    const { records, ledger } = this.#options;
    const wanted = ids === undefined ? undefined : new Set(ids);
    for await (const letter of records.dead()) {
      const names = wanted && (await namesOf(ledger, letter, wanted));
      for (const name of names ?? []) met?.(name);
      if (names?.length !== 0) yield letter;
    }
  }

  /** The stored events behind a position, up to another. What cannot be read is passed over by force only. */
  async *#between(after: number, to: number, force: boolean): AsyncGenerator<QueuedEvent> {
    let position = after;
    while (position < to) {
      const page = await this.#options.ledger.read(position, PAGE_EVENTS);
      if (page.kind === 'failed' && !force) throw new LedgerReadError(page);
      if (page.kind === 'failed' || page.events.length === 0) return;
      yield* page.events.filter(({ sequence }) => sequence <= to);
      position = page.lastSequence;
    }
  }

  /** Where hours are added up, the cursor stands before or after what is one sum. */
  #wholeHours(sequence: number, forward: boolean): number {
    const range = this.#options.ranges.of(sequence);
    if (range === undefined || range.to === sequence) return sequence;
    return forward || range.from < this.#options.ledger.lowWater() ? range.to : range.from;
  }

  /** What is skipped is noted in the write that skips it, but for what was passed once before. */
  async #skip(from: number, to: number): Promise<OperationFailed | undefined> {
    const { settings, records, ledger, ranges } = this.#options;
    const started = ranges.after(from);
    if (started?.doneTo !== undefined) {
      const reason = `an hour is on its way, up to sequence number ${started.to}: wait until it is delivered, or move the cursor back: cursor: "${to}"`;
      return { kind: 'failed', reason };
    }
    const passed = Math.max(from, (await records.state())?.resentUntil ?? 0);
    const unsent = addUnsent(await this.#unsent(), passed + 1, to);
    const commit = { from, records: [records.putUnsent(unsent)] };
    return failureOf(await ledger.commitCursor(settings.name, to, commit));
  }

  async #rewind(sequence: number): Promise<OperationFailed | undefined> {
    const { settings, records, ledger, ranges } = this.#options;
    const position = this.#position();
    if (position !== undefined && sequence < position) {
      const state = (await records.state()) ?? { type: settings.type };
      const started = ranges.after(position);
      const resentUntil = Math.max(position, started?.to ?? 0, state.resentUntil ?? 0);
      const noted = await ledger.writeRecords([
        ...(started === undefined ? [] : [ranges.progressOf(started, undefined)]),
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
