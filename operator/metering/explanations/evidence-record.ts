import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { EVIDENCE_PREFIX } from '../../ledger/evidence-keys.ts';
import type { EvidenceChanges, TenantEvidence } from '../meters/evidence-changes.ts';
import { formatInstant, type Window } from '../../model/window.ts';
import { encodeAmounts } from './amounts.ts';
import { type ChangeLists, decodeChanges, encodeChanges } from './changes-text.ts';

/** Which closing of a window a record is of. Times are milliseconds since the epoch. */
export interface Closing extends Window {
  readonly closedAt: number;
}

/** What one closing of a window adds to what is known of a tenant. */
export interface EvidenceRecord extends Closing {
  readonly changes: EvidenceChanges | undefined;
  /** As `decodeAmounts` reads them. */
  readonly amounts: Buffer;
}

/** A record of a tenant whose evidence is not stored from here on. */
export const LEFT_OUT = '';

/** One closing is bounded by the shares kept of each charge; anything larger is damage. */
const MAX_BYTES = 64 * 2 ** 20;
/** No JSON has this byte. */
const BETWEEN = 0;

/** What the keys of an hour of a tenant begin with; the rest is the number of the closing. */
export function evidenceKey({ tenant, hour }: Pick<TenantEvidence, 'tenant' | 'hour'>): string {
  return `${EVIDENCE_PREFIX}${formatInstant(hour)}/${encodeURIComponent(tenant)}/`;
}

/** JSON, a byte of zero and the amounts; compressed, as base64, because the values of records are texts. */
export function encodeEvidence(
  { start, end, closedAt }: Closing,
  { changes, amounts }: Pick<TenantEvidence, 'changes' | 'amounts'>,
): string {
  const changed = changes === undefined ? 'null' : encodeChanges(changes);
  const json = Buffer.from(`[${start},${end},${closedAt},${changed}]\0`);
  const bytes = Buffer.concat([json, encodeAmounts(amounts)]);
  // Where the size is not given, a few kilobytes take megabytes to compress.
  return zstdCompressSync(bytes, { pledgedSrcSize: bytes.length }).toString('base64');
}

/** Throws where the text is damaged. */
export function decodeEvidence(text: string): EvidenceRecord {
  const bytes = zstdDecompressSync(Buffer.from(text, 'base64'), { maxOutputLength: MAX_BYTES });
  const at = bytes.indexOf(BETWEEN);
  const [start, end, closedAt, changed] = JSON.parse(bytes.toString('utf8', 0, at)) as [
    start: number,
    end: number,
    closedAt: number,
    changed: ChangeLists | null,
  ];
  const changes = changed === null ? undefined : decodeChanges(changed);
  return { start, end, closedAt, changes, amounts: bytes.subarray(at + 1) };
}
