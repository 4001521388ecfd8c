import type { Problems } from './failures.ts';
import { type LedgerAnchor, LedgerReadError, type WriteOutcome } from './ledger.ts';

/** What a storage says of itself, so that it can be compared with an anchor. */
export interface AnchoredStorage {
  readonly ledgerId: string;
  readonly head: number;
  /**
   * The chain value of the batch that ends with an event: empty where none ends there, undefined where the event
   * is not stored. Throws a {@link LedgerReadError} where that cannot be read.
   */
  chainAt(sequence: number): Promise<string | undefined>;
  /** Leaves out the numbers up to `head`, durably. */
  skipTo(head: number): Promise<WriteOutcome>;
}

/** No ledger counts further: LevelDB's keys have six bytes for a number. */
const MAX_SEQUENCE = 2 ** 48 - 2;

const WRITTEN: WriteOutcome = { kind: 'written' };

/** What every {@link Ledger} does of `compareWith`. */
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
    // Damage is told, and keeps nobody from metering.
    problems.add(error.failure.message);
    return WRITTEN;
  }
}

function missingNewest(head: number, sequence: number): string {
  const lost = `events ${head + 1} to ${sequence} (${sequence - head}) were acknowledged and are gone`;
  const fix =
    'stop the operator and restore what has them, or let windows be measured again; their numbers are not given again';
  return `ledger: the newest events are missing: ${lost}; ${fix} (docs/how-to/back-up-and-restore.md#when-the-newest-events-are-missing)`;
}

function otherEvents(sequence: number, noted: string, found: string): string {
  const what = `the chain at event ${sequence} differs from what was noted outside of the ledger`;
  const fix =
    'other events had these numbers before (docs/how-to/back-up-and-restore.md#when-the-newest-events-are-missing)';
  return `ledger: the newest events are missing: ${what}, "${noted}": "${found}"; ${fix}`;
}
