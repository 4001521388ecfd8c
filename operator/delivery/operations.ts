import type { DestinationSettings } from '../config/settings.ts';
import type { Destination } from '../destinations/destination.ts';
import type { Ledger, RecordChange } from '../ledger/ledger.ts';
import { cursorWarnings } from './cursor-warnings.ts';
import type { DeadLetterIndex } from './dead-letters.ts';
import { type DeliveryRecords, firstOf, type KeptEvent } from './delivery-records.ts';
import { withheldAfter, withheldUpTo, withhold } from './withheld.ts';
import type { ReplayResult, ReplaySessions } from './replay-sessions.ts';

/** Records changed in one write. */
const CHUNK = 500;

export interface DeadLetterPage {
  readonly deadLetters: readonly KeptEvent[];
  /** Where the next page begins; absent on the last. */
  readonly next?: number;
}

/** Nothing was changed; the reason says why. */
export interface OperationFailed {
  readonly kind: 'failed';
  readonly reason: string;
}

export type ReplayOutcome = ({ readonly kind: 'replayed' } & ReplayResult) | OperationFailed;

export type DiscardOutcome =
  | { readonly kind: 'discarded'; readonly discarded: number }
  | OperationFailed;

export type MoveOutcome =
  | { readonly kind: 'moved'; readonly sequence: number; readonly warnings: readonly string[] }
  | OperationFailed;

/** What an operator may do about a destination (design 11). Letters are named by event id. */
export interface Operations {
  /** Dead letters after a sequence number, in order; those on their way once more included. */
  deadLetters(after: number, limit: number): Promise<DeadLetterPage>;
  /** Sends letters once more; all of them when no ids are given. */
  replay(ids: readonly string[] | undefined): Promise<ReplayOutcome>;
  /** Gives letters up for good; all of them when no ids are given. */
  discard(ids: readonly string[] | undefined): Promise<DiscardOutcome>;
  /** Puts the cursor at a position between the oldest stored event and the newest. */
  moveCursor(sequence: number): Promise<MoveOutcome>;
}

export interface OperationsOptions {
  readonly settings: DestinationSettings;
  readonly destination: Pick<Destination, 'limits' | 'verify'>;
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly deadLetters: DeadLetterIndex;
  readonly replays: ReplaySessions;
  /** Runs an action while the feeder stands still. */
  readonly paused: <T>(action: () => Promise<T>) => Promise<T>;
  /** There are letters to send. */
  readonly wakeReplay: () => void;
}

export function createOperations(options: OperationsOptions): Operations {
  const { settings, ledger, records, deadLetters } = options;
  let last: Promise<unknown> = Promise.resolve();

  /** One operation at a time, so that none works on what another has just changed. */
  const inTurn = <T>(action: () => Promise<T>): Promise<T> => {
    const turn = last.then(action, action);
    last = turn.catch(() => undefined);
    return turn;
  };

  /** Changes the letters that are meant, a chunk at a time; answers which were changed. */
  const changeDead = async (
    ids: readonly string[] | undefined,
    changesOf: (letters: readonly KeptEvent[]) => Promise<readonly RecordChange[]>,
    changed: (letters: readonly KeptEvent[]) => void,
  ): Promise<OperationFailed | undefined> => {
    const wanted = ids === undefined ? undefined : new Set(ids);
    const matching = async function* (): AsyncGenerator<KeptEvent> {
      for await (const letter of records.dead())
        if (wanted?.has(letter.event.id) ?? true) yield letter;
    };
    for (;;) {
      const letters = await firstOf(matching(), CHUNK);
      if (letters.length === 0) return undefined;
      const outcome = await ledger.writeRecords(await changesOf(letters));
      if (outcome.kind === 'failed') return { kind: 'failed', reason: outcome.message };
      changed(letters);
    }
  };

  const withheld = async () => withheldAfter(await records.withheld(), ledger.lowWater());

  /** What is skipped is noted in the write that skips it, but for what was passed once before. */
  const skip = async (from: number, to: number): Promise<OperationFailed | undefined> => {
    const passed = Math.max(from, (await records.state())?.resentUntil ?? 0);
    const outcome = await ledger.commitCursor(settings.name, to, {
      from,
      records: [records.putWithheld(withhold(await withheld(), passed + 1, to))],
    });
    return outcome.kind === 'failed' ? { kind: 'failed', reason: outcome.message } : undefined;
  };

  const rewind = async (sequence: number): Promise<OperationFailed | undefined> => {
    const position = currentPosition(ledger, settings.name);
    if (position !== undefined && sequence < position) {
      const state = (await records.state()) ?? { type: settings.type };
      const resentUntil = Math.max(position, state.resentUntil ?? 0);
      const noted = await ledger.writeRecords([
        records.putState({ ...state, resentUntil }),
        records.putWithheld(withheldUpTo(await withheld(), sequence)),
      ]);
      if (noted.kind === 'failed') return { kind: 'failed', reason: noted.message };
    }
    const outcome = await ledger.moveCursor(settings.name, sequence);
    return outcome.kind === 'failed' ? { kind: 'failed', reason: outcome.message } : undefined;
  };

  return {
    deadLetters: async (after, limit) => {
      const later = async function* (listing: AsyncIterable<KeptEvent>) {
        for await (const letter of listing) if (letter.sequence > after) yield letter;
      };
      const found = [
        ...(await firstOf(later(records.dead()), limit + 1)),
        ...(await firstOf(later(records.replay()), limit + 1)),
      ].toSorted((a, b) => a.sequence - b.sequence);
      const page = found.slice(0, limit);
      const next = found.length > limit ? page.at(-1)?.sequence : undefined;
      return { deadLetters: page, ...(next !== undefined && { next }) };
    },

    replay: async (ids) => {
      if (settings.suspend) return { kind: 'failed', reason: 'destination is suspended' };
      const marked: number[] = [];
      const failed = await inTurn(() =>
        changeDead(
          ids,
          async (letters) =>
            letters.flatMap((letter) => [
              records.dropDead(letter.sequence),
              records.putReplay(letter),
            ]),
          (letters) => void marked.push(...letters.map(({ sequence }) => sequence)),
        ),
      );
      if (failed !== undefined && marked.length === 0) return failed;
      const result = options.replays.follow(marked);
      options.wakeReplay();
      return { kind: 'replayed', ...(await result) };
    },

    discard: async (ids) => {
      let discarded = 0;
      const failed = await inTurn(() =>
        changeDead(
          ids,
          async (letters) => {
            // A letter that a rewound cursor has yet to pass is sent again all the same.
            const position = currentPosition(ledger, settings.name) ?? 0;
            const passed = letters.filter(({ sequence }) => sequence <= position);
            const kept = passed.reduce(
              (all, { sequence: at }) => withhold(all, at, at),
              await withheld(),
            );
            return [
              ...letters.map(({ sequence }) => records.dropDead(sequence)),
              records.putWithheld(kept),
            ];
          },
          (letters) => {
            discarded += letters.length;
            for (const { sequence, event } of letters) deadLetters.remove(sequence, event.tenant);
          },
        ),
      );
      return failed !== undefined && discarded === 0 ? failed : { kind: 'discarded', discarded };
    },

    moveCursor: (sequence) =>
      inTurn(() =>
        options.paused(async () => {
          const [low, head] = [ledger.lowWater(), ledger.head()];
          if (sequence < low || sequence > head) {
            const reason = `cursor outside of what is stored, ${low} to ${head}: cursor: "${sequence}"`;
            return { kind: 'failed', reason };
          }
          const position = currentPosition(ledger, settings.name) ?? sequence;
          const forward = sequence > position;
          const failed = await (forward ? skip(position, sequence) : rewind(sequence));
          if (failed !== undefined) return failed;
          const warnings = cursorWarnings(position, sequence, options.destination);
          return { kind: 'moved', sequence, warnings };
        }),
      ),
  };
}

function currentPosition(ledger: Ledger, name: string): number | undefined {
  return ledger.cursors().find(({ destination }) => destination === name)?.sequence;
}
