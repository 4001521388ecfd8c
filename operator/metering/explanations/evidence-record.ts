import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { EVIDENCE_PREFIX } from '../../ledger/evidence-keys.ts';
import type { EvidenceChanges, TenantEvidence } from '../meters/evidence-changes.ts';
import { formatInstant, type Window } from '../../model/window.ts';
import { encodeAmounts } from './amounts.ts';
import { type ChangeLists, decodeChanges, encodeChanges } from './changes-text.ts';

/** Identifies one closing of a window. Times are milliseconds since the epoch. */
export interface Closing extends Window {
  readonly closedAt: number;
}

/** Record of a tenant whose evidence is not stored from here on. */
export const LEFT_OUT = '';

/** The stored shares of each charge bound one closing; anything larger is damage. */
const MAX_BYTES = 64 * 2 ** 20;
/** JSON never contains this byte. */
const BETWEEN = 0;

/** Key prefix of a tenant's hour. The number of the closing follows. */
export function evidenceKey({ tenant, hour }: Pick<TenantEvidence, 'tenant' | 'hour'>): string {
  return `${EVIDENCE_PREFIX}${formatInstant(hour)}/${encodeURIComponent(tenant)}/`;
}

/** Encodes JSON, a zero byte and the amounts, compressed, as base64: record values are texts. */
export function encodeEvidence(
  { start, end, closedAt }: Closing,
  { changes, amounts }: Pick<TenantEvidence, 'changes' | 'amounts'>,
): string {
  const changed = changes === undefined ? 'null' : encodeChanges(changes);
  const json = Buffer.from(`[${start},${end},${closedAt},${changed}]\0`);
  const bytes = Buffer.concat([json, encodeAmounts(amounts)]);
  // Without the size, compressing a few kilobytes takes megabytes.
  return zstdCompressSync(bytes, { pledgedSrcSize: bytes.length }).toString('base64');
}

/** Throws if the text is damaged. */
export function decodeEvidence(text: string): Closing & {
  readonly changes: EvidenceChanges | undefined;
  /** Encoded; `decodeAmounts` reads them. */
  readonly amounts: Buffer;
} {
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
