import { ledgerFailure } from '../failures.ts';
import { type AppendBatch, type AppendOutcome, type Ledger, LedgerReadError } from '../ledger.ts';
import { createMemoryLedger } from './memory-ledger.ts';

/**
 * Result of a write: stored and confirmed; refused; stored but reported as failed; or without any
 * answer, stored or not.
 */
export type Presence = 'there' | 'away' | 'answers lost' | 'silent' | 'deaf';

/** A ledger in memory whose database may be unreachable. */
export interface AwayLedger extends Ledger {
  presence: Presence;
  /** Resolves with the next write that gets no answer. */
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
