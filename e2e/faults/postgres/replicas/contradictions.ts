import type { Ledger } from '../../../../operator/ledger/ledger.ts';
import { closedInKey, movedByKey } from './messages.ts';
import type { ReplicaProcess } from './replica-process.ts';

/** A right to write as one process had it: a term as the meter, or an epoch of the feeder's lease. */
interface Right {
  readonly whose: string;
  readonly number: number;
  /** How far the stream was when it began: the newest window, or the cursor. */
  readonly from: number;
  /** The furthest that was written by it, acknowledged or not; undefined where nothing was. */
  readonly to: number | undefined;
}

/** The part of a process that tells of its rights. */
export interface Told {
  readonly label: string;
  readonly said: ReplicaProcess['said'];
}

/**
 * Whether anybody has written anything by a right after somebody else had a later one: whoever came later must have found
 * all of it. One line for each that did. A later right by which nothing was written is none: a failover may have taken it back.
 */
export async function contradictions(
  all: readonly Told[],
  ledger: Pick<Ledger, 'record'>,
): Promise<readonly string[]> {
  const stored = async (key: string): Promise<readonly number[]> => {
    const text = await ledger.record(key);
    return text === undefined ? [] : [Number(text)];
  };
  const terms = all.flatMap(({ label, said }) =>
    said('leads').map(async ({ term, found }): Promise<Right> => {
      const closed = said('closed').filter((each) => each.term === term);
      const windows = closed.map(({ window }) => window);
      const to = furthest([...windows, ...(await stored(closedInKey(term)))]);
      return { whose: `${label} in term ${term}`, number: term, from: found, to };
    }),
  );
  const epochs = all.flatMap(({ label, said }) =>
    said('holds').map(async ({ epoch, cursor }): Promise<Right> => {
      const moved = said('moved').filter((each) => each.epoch === epoch);
      const cursors = moved.map((each) => each.cursor);
      const to = furthest([...cursors, ...(await stored(movedByKey(label, epoch)))]);
      return { whose: `${label} with epoch ${epoch}`, number: epoch, from: cursor, to };
    }),
  );
  return [
    ...written('window', await Promise.all(terms)),
    ...written('cursor', await Promise.all(epochs)),
  ];
}

function written(what: string, rights: readonly Right[]): readonly string[] {
  return rights.flatMap(({ whose, number, to = -1 }) =>
    rights
      .filter((later) => later.number > number && later.to !== undefined && later.from < to)
      .map((later) => `${what} ${to}: by ${whose}, where ${later.whose} began at ${later.from}`),
  );
}

function furthest(numbers: readonly number[]): number | undefined {
  return numbers.length === 0 ? undefined : numbers.reduce((a, b) => Math.max(a, b));
}
