/**
 * Prefix of evidence keys: `evidence/<start of an hour>/<more>`. Evidence explains the events of
 * that hour. It is stored beside them and deleted with them
 * (docs/reference/ledger-format.md#evidence).
 */
export const EVIDENCE_PREFIX = 'evidence/';

/** The windows of one record start less than this after the time in its key, milliseconds. */
export const EVIDENCE_MS = 3_600_000;

const INSTANT_CHARACTERS = '2026-11-21T09:00:00Z'.length;

export function isEvidence(key: string): boolean {
  return key.startsWith(EVIDENCE_PREFIX);
}

/** The start of the hour in a key or prefix, ms since the epoch; undefined if there is none. */
export function evidenceHourIn(key: string): number | undefined {
  const at = EVIDENCE_PREFIX.length;
  const instant = Date.parse(key.slice(at, at + INSTANT_CHARACTERS));
  return Number.isNaN(instant) ? undefined : instant;
}
