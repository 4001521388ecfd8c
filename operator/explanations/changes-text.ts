import type { EvidenceChanges } from '../metering/evidence-changes.ts';

type Lists = Omit<EvidenceChanges, 'afresh'>;

/** The lists as one JSON list, 1 before them where they begin afresh: names in every frame would be much of it. */
export function encodeChanges(changes: EvidenceChanges): string {
  const { charges, subjects, spans, ended, notes } = changes;
  const lists = [charges, subjects, spans, ended, notes];
  return JSON.stringify([changes.afresh === true ? 1 : 0, ...lists]);
}

/** Throws where the text is damaged. */
export function decodeChanges(text: string): EvidenceChanges {
  const [afresh, charges, subjects, spans, ended, notes] = JSON.parse(text) as [
    0 | 1,
    Lists['charges'],
    Lists['subjects'],
    Lists['spans'],
    Lists['ended'],
    Lists['notes'],
  ];
  const lists = { charges, subjects, spans, ended, notes };
  return afresh === 1 ? { afresh: true, ...lists } : lists;
}
