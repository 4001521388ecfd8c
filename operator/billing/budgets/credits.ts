import pLimit from 'p-limit';
import { parseRecord } from '../../model/parse-record.ts';
import type { Ledger, LedgerFailure } from '../../ledger/ledger.ts';
import type { BudgetCounts } from '../../model/budget.ts';
import { type Decimal, nanosFromDecimal, parseSigned } from '../../model/decimal.ts';
import { isRecord } from '../../model/is-record.ts';
import { quote } from '../../model/quote.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { countsOf, unitText } from './unit.ts';

const PREFIX = 'budgets/credits/';

/**
 * A change of a prepaid balance: added to it, or taken from it when the amount is negative
 * (docs/how-to/budgets.md#credits).
 */
export interface CreditRequest {
  readonly tenant: string;
  /** Names the credit among the tenant's. A second request with the same key adds nothing. */
  readonly key: string;
  /** In the currency, or in the unit of the metric. Never zero. */
  readonly amount: Decimal;
  readonly counts: BudgetCounts;
  readonly note?: string;
  /** Such as the number of a payment. */
  readonly reference?: string;
}

/** A recorded credit. Records are never deleted. */
export interface Credit extends CreditRequest {
  /** When the operator received it, milliseconds since the epoch. */
  readonly at: number;
  /** Start of the measured window in which it arrived ({@link countedAt}). */
  readonly countsFrom: number;
}

export type CreditOutcome =
  /** Recorded, now or earlier with the same content. */
  | { readonly kind: 'credited'; readonly credit: Credit; readonly isNew: boolean }
  /** The key belongs to a credit with other content. Nothing changed. */
  | { readonly kind: 'conflict'; readonly credit: Credit }
  | LedgerFailure;

/** The credits of prepaid balances. All of them are in the ledger; none are kept in memory. */
export class Credits {
  readonly #ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords'>;
  /** The current window size, milliseconds. */
  readonly #windowMs: () => number;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #listeners = new Set<(tenant: string) => void>();
  readonly #enqueue = pLimit(1);

  constructor(
    ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords'>,
    windowMs: () => number,
    clock: Pick<Clock, 'now'>,
  ) {
    this.#ledger = ledger;
    this.#windowMs = windowMs;
    this.#clock = clock;
  }

  /** Durably adds a credit, once for each key. Rejects when the ledger cannot be read. */
  add(request: CreditRequest): Promise<CreditOutcome> {
    return this.#enqueue(() => this.#add(request));
  }

  /**
   * The credits of one tenant or of all, in no particular order. Throws when the ledger cannot be
   * read or a record is damaged.
   */
  async *list(tenant?: string): AsyncGenerator<Credit> {
    const of = tenant === undefined ? '' : `${encodeURIComponent(tenant)}/`;
    for await (const [key, text] of this.#ledger.records(PREFIX + of)) {
      yield parseCredit(key, text);
    }
  }

  /** Calls the listener with each new credit's tenant, until the returned function is called. */
  subscribe(listener: (tenant: string) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async #add(request: CreditRequest): Promise<CreditOutcome> {
    const key = `${PREFIX}${encodeURIComponent(request.tenant)}/${encodeURIComponent(request.key)}`;
    const stored = await this.#ledger.record(key);
    if (stored !== undefined) {
      const credit = parseCredit(key, stored);
      const isSame = contentOf(credit) === contentOf(request);
      return isSame ? { kind: 'credited', credit, isNew: false } : { kind: 'conflict', credit };
    }
    const at = this.#clock.now();
    const windowMs = this.#windowMs();
    const credit = { ...request, at, countsFrom: Math.floor(at / windowMs) * windowMs };
    const outcome = await this.#ledger.writeRecords([{ key, value: creditText(credit) }]);
    if (outcome.kind === 'failed') return outcome;
    for (const listener of this.#listeners) listener(credit.tenant);
    return { kind: 'credited', credit, isNew: true };
  }
}

/** The sum of all credits of one tenant in one unit. */
export interface Credited {
  readonly tenant: string;
  readonly counts: BudgetCounts;
  /** In the units of a budget (`Budget`). */
  readonly amount: bigint;
  /** Usage counts from here, milliseconds since the epoch. */
  readonly since: number;
}

/** Sums credits by tenant and unit. */
export async function sumCredits(
  credits: AsyncIterable<Credit> | Iterable<Credit>,
): Promise<readonly Credited[]> {
  const sums = new Map<string, Credited>();
  for await (const { tenant, counts, amount, countsFrom } of credits) {
    const key = JSON.stringify([tenant, unitText({ counts })]);
    const before = sums.get(key);
    sums.set(key, {
      tenant,
      counts,
      amount: (before?.amount ?? 0n) + inUnitsOf(counts, nanosFromDecimal(amount)),
      since: Math.min(before?.since ?? countsFrom, countsFrom),
    });
  }
  return [...sums.values()];
}

/** Budgets of money count in 10⁻²¹ of the currency's unit, so a nano-unit has 10¹² of them. */
const PER_NANO = 10n ** 12n;

/** Converts nano-units to the units of a budget. */
function inUnitsOf({ kind }: BudgetCounts, nanos: bigint): bigint {
  return kind === 'money' ? nanos * PER_NANO : nanos;
}

function contentOf({ amount, counts, note, reference }: CreditRequest): string {
  return JSON.stringify([amount, unitText({ counts }), note, reference]);
}

function creditText({ counts, ...credit }: Credit): string {
  return JSON.stringify({ ...credit, unit: unitText({ counts }) });
}

/**
 * Throws on a damaged record: with one credit missing the balance is wrong, and nobody may be
 * suspended by it.
 */
function parseCredit(key: string, text: string): Credit {
  const credit = readCredit(text);
  if (credit === undefined) throw new Error(`damaged record: ${key}: ${quote(text)}`);
  return credit;
}

function readCredit(text: string): Credit | undefined {
  const value = parseRecord(text, isRecord);
  if (value === undefined) return undefined;
  const { tenant, key, unit, at, countsFrom, note, reference } = value;
  const amount = typeof value['amount'] === 'string' ? parseSigned(value['amount']) : undefined;
  if (typeof tenant !== 'string' || typeof key !== 'string' || typeof unit !== 'string') {
    return undefined;
  }
  if (amount === undefined || typeof at !== 'number' || typeof countsFrom !== 'number') {
    return undefined;
  }
  return {
    tenant,
    key,
    amount,
    at,
    countsFrom,
    counts: countsOf(unit),
    note: textOf(note),
    reference: textOf(reference),
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
