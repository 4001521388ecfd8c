import type { Problems } from './failures.ts';
import { type LedgerAnchor, LedgerReadError, type WriteOutcome } from './ledger.ts';

/** A ledger's storage, as far as the comparison with an anchor needs it. */
export interface AnchoredStorage {
  readonly ledgerId: string;
  readonly head: number;
  /**
   * The chain value of the batch that ends with this event: `''` if no batch ends there, undefined
   * if the event is not stored. Throws a {@link LedgerReadError} if the value cannot be read.
   */
  chainAt(sequence: number): Promise<string | undefined>;
  /** Durably skips the sequence numbers up to `head`. */
  skipTo(head: number): Promise<WriteOutcome>;
}

/** The largest sequence number: LevelDB's keys have six bytes for it. */
const MAX_SEQUENCE = 2 ** 48 - 2;

const WRITTEN: WriteOutcome = { kind: 'written' };

/** Implements `compareWith` of every {@link Ledger}. */
export async function compareWithAnchor(
  anchor: LedgerAnchor,
  storage: AnchoredStorage,
  problems: Problems,
): Promise<WriteOutcome> {
  const { ledgerId, sequence, chain } = anchor;
  const counts = Number.isSafeInteger(sequence) && sequence > 0 && sequence <= MAX_SEQUENCE;
  if (ledgerId !== storage.ledgerId || !counts) return WRITTEN;
  const { head } = storage;
  if (head < sequence) {
    const outcome = await storage.skipTo(sequence);
    if (outcome.kind === 'written') problems.add(missingNewest(head, sequence));
    return outcome;
  }
  try {
    const found = await storage.chainAt(sequence);
    if (found !== undefined && found !== chain) problems.add(otherEvents(sequence, chain, found));
    return WRITTEN;
  } catch (error) {
    if (!(error instanceof LedgerReadError)) throw error;
    if (error.failure.cause !== 'corrupt') return error.failure;
    // Damage is reported, and metering continues.
    problems.add(error.failure.message);
    return WRITTEN;
  }
}

function missingNewest(head: number, sequence: number): string {
  const lost = `events ${head + 1} to ${sequence} (${sequence - head}) were acknowledged and are gone`;
  const fix =
    'stop the operator and restore a volume that has them, or let windows be measured again; their numbers are not used again';
  return `ledger: the newest events are missing: ${lost}; ${fix} (docs/how-to/back-up-and-restore.md#when-the-newest-events-are-missing)`;
}

function otherEvents(sequence: number, noted: string, found: string): string {
  const what = `the chain at event ${sequence} differs from the anchor stored outside the ledger`;
  const fix =
    'other events had these numbers before (docs/how-to/back-up-and-restore.md#when-the-newest-events-are-missing)';
  return `ledger: the newest events are missing: ${what}, "${noted}": "${found}"; ${fix}`;
}
