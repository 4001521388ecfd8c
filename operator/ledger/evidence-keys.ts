/**
 * Keys of evidence, which is what stands behind events: `evidence/<start of an hour>/<more>`. Such a record is stored
 * beside the events of that hour, and is deleted with them (docs/reference/ledger-format.md#evidence).
 */
export const EVIDENCE_PREFIX = 'evidence/';

/** How long the windows of one record may start after the instant in its key, milliseconds. */
export const EVIDENCE_MS = 3_600_000;

const INSTANT_CHARACTERS = '2026-11-21T09:00:00Z'.length;

export function isEvidence(key: string): boolean {
  return key.startsWith(EVIDENCE_PREFIX);
}

/** The start of the hour in a key or prefix, milliseconds since the epoch; undefined where it names none. */
export function evidenceHourIn(key: string): number | undefined {
  const at = EVIDENCE_PREFIX.length;
  const instant = Date.parse(key.slice(at, at + INSTANT_CHARACTERS));
  return Number.isNaN(instant) ? undefined : instant;
}
