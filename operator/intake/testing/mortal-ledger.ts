import { ledgerFailure } from '../../ledger/failures.ts';
import type { Ledger, LedgerFailure } from '../../ledger/ledger.ts';

/**
 * What becomes of one write: `lost` is not stored, `unknown` is stored, and both report a failure.
 * After `killed-*` every further call fails, as if the process had ended before or after storing.
 */
export type Fate = 'stored' | 'lost' | 'unknown' | 'killed-before' | 'killed-after';

/** A ledger whose writes meet the next fate of a list. */
export class MortalLedger {
  readonly ledger: Ledger;
  readonly #fates: Fate[] = [];
  #dead = false;

  constructor(real: Ledger) {
    this.ledger = {
      ...real,
      append: (batch) => this.#write(() => real.append(batch)),
      writeRecords: (changes) => this.#write(() => real.writeRecords(changes)),
    };
  }

  get isDead(): boolean {
    return this.#dead;
  }

  /** Sets the fates of the next writes; all later ones are stored. */
  meet(fates: readonly Fate[]): void {
    this.#fates.splice(0, this.#fates.length, ...fates);
  }

  async #write<T>(write: () => Promise<T>): Promise<T | LedgerFailure> {
    if (this.#dead) return ledgerFailure('fenced', 'ledger: the process has ended');
    const fate = this.#fates.shift() ?? 'stored';
    if (fate === 'stored') return write();
    if (fate === 'unknown' || fate === 'killed-after') await write();
    this.#dead = fate.startsWith('killed');
    return ledgerFailure('retryable', `ledger: ${fate}`);
  }
}
