import type { UnseenGap } from './bills.ts';
import type { Blind, Watched } from './figures.ts';

/** What gaps with the reason `unseen` say of the stretches in which the operator was down. */
export interface UnseenFigures {
  readonly gaps: readonly UnseenGap[];
  /** Kinds whose watch could not go on, so that what came and went is unknown. */
  readonly kinds: readonly Watched[];
  /** Those of them that no gap says so of, from the end of the operator to its next start. */
  readonly missing: readonly Watched[];
}

/** Nobody is billed for how long a Namespace was there. */
const NOT_BILLED: readonly Watched[] = ['namespaces'];

export function compareUnseen(blinds: readonly Blind[], gaps: readonly UnseenGap[]): UnseenFigures {
  const stops = blinds.flatMap(({ down, kinds }) =>
    down === undefined ? [] : kinds.map((kind) => ({ kind, ...down })),
  );
  const billed = stops.filter(({ kind }) => !NOT_BILLED.includes(kind));
  const missing = billed.filter(
    ({ kind, from, to }) =>
      !gaps.some((gap) => gap.source === kind && gap.from <= from && gap.to >= to),
  );
  return {
    gaps,
    kinds: [...new Set(billed.map(({ kind }) => kind))],
    missing: [...new Set(missing.map(({ kind }) => kind))],
  };
}
