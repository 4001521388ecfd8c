import { ledgerFailure } from '../failures.ts';
import { type AppendBatch, type AppendOutcome, type Ledger, LedgerReadError } from '../ledger.ts';
import { createMemoryLedger } from './memory-ledger.ts';

/**
 * What becomes of a write: stored and answered; refused; stored and said to be not; and without any answer ever, stored
 * or not.
 */
export type Presence = 'there' | 'away' | 'answers lost' | 'silent' | 'deaf';

/** A database that may be away, as a ledger in memory. */
export interface AwayLedger extends Ledger {
  presence: Presence;
  /** Resolves with the next write that no answer comes to. */
  hangs(): Promise<void>;
}

const AWAY = ledgerFailure('retryable', 'ledger: writing: connect ECONNREFUSED');

export function createAwayLedger(): AwayLedger {
  const stored = createMemoryLedger();
  let hung = Promise.withResolvers<void>();
  const ifThere = (): void => {
    if (ledger.presence !== 'there') throw new LedgerReadError(AWAY);
  };
  const append = async (batch: AppendBatch): Promise<AppendOutcome> => {
    if (ledger.presence === 'away') return AWAY;
    const outcome = ledger.presence === 'deaf' ? AWAY : await stored.append(batch);
    if (ledger.presence === 'there') return outcome;
    if (ledger.presence === 'answers lost') return AWAY;
    hung.resolve();
    hung = Promise.withResolvers();
    return new Promise(() => undefined);
  };
  const ledger: AwayLedger = {
    ...stored,
    presence: 'there',
    hangs: () => hung.promise,
    append,
    writeRecords: async (records) => {
      const outcome = await append({ events: [], records });
      return outcome.kind === 'failed' ? outcome : { kind: 'written' };
    },
    record: async (key) => {
      ifThere();
      return stored.record(key);
    },
    async *records(prefix) {
      ifThere();
      yield* stored.records(prefix);
    },
  };
  return ledger;
}
