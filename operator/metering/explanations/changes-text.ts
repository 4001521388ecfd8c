import type { EvidenceChanges } from '../meters/evidence-changes.ts';

type Lists = Omit<EvidenceChanges, 'afresh'>;

/** The lists in one list, 1 before them where they begin afresh. */
export type ChangeLists = readonly [
  afresh: 0 | 1,
  Lists['charges'],
  Lists['subjects'],
  Lists['spans'],
  Lists['ended'],
  Lists['notes'],
];

/** The lists as one JSON list: names in every record would be much of it. */
export function encodeChanges(changes: EvidenceChanges): string {
  const { charges, subjects, spans, ended, notes } = changes;
  const again = changes.afresh === true ? 1 : 0;
  return JSON.stringify([again, charges, subjects, spans, ended, notes] satisfies ChangeLists);
}

/** What {@link encodeChanges} wrote, parsed. */
export function decodeChanges([
  again,
  charges,
  subjects,
  spans,
  ended,
  notes,
]: ChangeLists): EvidenceChanges {
  const lists = { charges, subjects, spans, ended, notes };
  return again === 1 ? { afresh: true, ...lists } : lists;
}
