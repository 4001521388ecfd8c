import type { ChargeIdentity } from '../metering/tally.ts';
import type { Window } from '../model/window.ts';
import type { Unseen } from './live-grounds.ts';

/**
 * What goes on of one charge, as a straight line: at a moment it has come to `began` + `rate` × milliseconds since its
 * window began; nano-units × milliseconds.
 */
export interface LiveUsage {
  readonly identity: ChargeIdentity;
  /** One text for an identity; equal identities have equal texts. */
  readonly key: string;
  /** Below zero where it began later, or where closed windows had too much. */
  readonly began: bigint;
  /** What each millisecond adds if nothing changes. */
  readonly rate: bigint;
}

/** What is measured by itself, and is in no closed window yet. */
export interface LivePart {
  /** The scope that it is measured with. */
  readonly scope: string;
  /** The beginning of the first window that it is of, milliseconds since the epoch. */
  readonly windowStart: number;
  /** It was measured after the end of that window: what it came to by then its lines do not tell. */
  readonly isLate: boolean;
  readonly usage: readonly LiveUsage[];
}

/** Where is measured, and from when on. */
export interface LivePlace {
  readonly namespace: string;
  /** The beginning of a window, milliseconds since the epoch: usage of earlier ones is left out, whether they are closed or not. */
  readonly since: number;
}

/** What goes on since windows were closed, measured as they will be (docs/budgets.md#what-counts). Asking changes nothing. */
export interface LiveView {
  /**
   * CPU and memory of each of some pods of a namespace by itself, of all that there are where none are named; one that nobody
   * knows uses nothing. Undefined while they have not been listed.
   */
  pods(
    place: LivePlace,
    uids?: Iterable<string>,
  ): Iterable<readonly [uid: string, part: LivePart]> | undefined;
  /** Everything else in a namespace, by kind: it takes as long as there is. Undefined while some of it has not been listed. */
  others(place: LivePlace): readonly LivePart[] | undefined;
  /** While it is the same, {@link others} only come to more with time. */
  othersMark(namespace: string): string;
  /**
   * What of some namespaces may come out otherwise than at the last call without a change of its own, as where a node has
   * become another. It takes as long as there are namespaces only where anything has.
   */
  unseen(namespaces: Iterable<string>): Unseen;
}

/** What charges have come to by the end of a stretch since its beginning, and what they add in the millisecond after it, by key. */
export function linesOf(
  stretch: Window,
  amounts: ReadonlyMap<string, Charged>,
  next: ReadonlyMap<string, Charged>,
): readonly LiveUsage[] {
  const ms = BigInt(stretch.end - stretch.start);
  return [...new Map([...amounts, ...next])].map(([key, { identity }]) => {
    const rate = next.get(key)?.amount ?? 0n;
    return { identity, key, began: (amounts.get(key)?.amount ?? 0n) - rate * ms, rate };
  });
}

/** Nano-units × milliseconds of a charge. */
export interface Charged {
  readonly identity: ChargeIdentity;
  readonly amount: bigint;
}
