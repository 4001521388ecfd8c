import type { EvidenceChanges } from '../meters/evidence-changes.ts';

type Lists = Omit<EvidenceChanges, 'replacesEarlier'>;

/** The lists in one list. The first item is 1 if they replace all earlier changes. */
export type ChangeLists = readonly [
  replacesEarlier: 0 | 1,
  Lists['charges'],
  Lists['subjects'],
  Lists['spans'],
  Lists['ended'],
  Lists['notes'],
];

/** Encodes the lists as one JSON list. Field names in every record would take much space. */
export function encodeChanges(changes: EvidenceChanges): string {
  const { charges, subjects, spans, ended, notes } = changes;
  const again = changes.replacesEarlier === true ? 1 : 0;
  return JSON.stringify([again, charges, subjects, spans, ended, notes] satisfies ChangeLists);
}

/** Returns what {@link encodeChanges} wrote, after JSON.parse. */
export function decodeChanges([
  again,
  charges,
  subjects,
  spans,
  ended,
  notes,
]: ChangeLists): EvidenceChanges {
  const lists = { charges, subjects, spans, ended, notes };
  return again === 1 ? { replacesEarlier: true, ...lists } : lists;
}
