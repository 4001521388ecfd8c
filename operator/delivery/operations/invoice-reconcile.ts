import pLimit from 'p-limit';
import type { UnpricedUsage } from '../../destinations/prices.ts';
import type { FinalInvoice, Invoices, InvoicesOutcome } from '../../destinations/invoices.ts';
import type { LedgerFailure } from '../../ledger/ledger.ts';
import { greatest, least } from '../../model/extremes.ts';
import type { Tenant } from '../../model/tenant.ts';
import { applyInvoices, closedFor, closings } from './invoice-balance.ts';
import {
  type InvoiceMismatch,
  type InvoiceReport,
  invoiceReport,
  mismatchesOf,
} from './invoice-report.ts';
import { payersOf } from './shared-payers.ts';
import { type Cut, InvoiceTally, type InvoiceTallyOptions } from './invoice-tally.ts';

const CONCURRENT_QUESTIONS = 4;
/** Interval between queries for a tenant's invoices. */
const QUERY_EVERY_MS = 3_600_000;
/** Polls in that interval. Each covers its share of the tenants. */
const POLLS = 6;
/** How far back invoices are queried, and how long an unsettled difference is reported. */
const MEMORY_MS = 62 * 86_400_000;

type InvoicesAnswer = Extract<InvoicesOutcome, { kind: 'invoices' }>;

/** Compares invoices with delivered usage (docs/explanation/delivery.md#invoices). */
export class InvoiceReconcile {
  readonly #options;
  readonly #tally: InvoiceTally;
  readonly #queriedAt = new Map<string, number>();
  readonly #unanswered = new Map<string, string>();
  #comparedAt: number | undefined;
  #mismatches: readonly InvoiceMismatch[] = [];

  constructor(
    options: InvoiceTallyOptions & {
      readonly invoices: Pick<Invoices, 'list'>;
      readonly unpriced: () => readonly UnpricedUsage[];
      readonly describe: (tenant: string) => Promise<Tenant>;
      /** Requests that a tenant is provisioned again, with or without new usage. */
      readonly recheck: (tenant: string) => void;
    },
  ) {
    this.#options = options;
    this.#tally = new InvoiceTally(options);
  }

  /**
   * Adds up delivered usage, and compares the invoices of `tenants` tenants, longest waiting first.
   * With many tenants it compares more of them, so that each is compared once an hour.
   */
  async poll(tenants: number, signal: AbortSignal): Promise<LedgerFailure | undefined> {
    const advanced = await this.#tally.advance();
    if (advanced.kind === 'failed') return advanced;
    const { at } = advanced;
    if (at === undefined) return undefined;
    const now = this.#options.clock.now();
    const answers = await this.#query(this.#due(tenants, now), at, signal);
    await this.#compare(answers, at, signal);
    this.#expire(now);
    this.#comparedAt = now;
    this.#mismatches = mismatchesOf(this.#tally.tenants, this.#options.unpriced(), now);
    return this.#tally.save();
  }

  /**
   * Returns the end of a tenant's final invoices for a metric, by the last answer; or undefined.
   */
  async closedUntil(tenant: string, metric: string): Promise<number | undefined> {
    await this.#tally.load();
    const known = this.#tally.tenants.get(tenant);
    return known && closedFor(known, metric);
  }

  /** Returns the last comparison; undefined before the first. */
  report(): InvoiceReport | undefined {
    const comparedAt = this.#comparedAt;
    if (comparedAt === undefined) return undefined;
    const compared = [...this.#tally.tenants.values()].filter(({ counted }) => counted.size > 0);
    const [problem] = this.#unanswered.values();
    return invoiceReport(this.#mismatches, {
      comparedAt,
      tenants: compared.length,
      unanswered: this.#unanswered.size,
      problem,
    });
  }

  #due(limit: number, now: number): readonly string[] {
    const queriedAt = (tenant: string): number => this.#queriedAt.get(tenant) ?? 0;
    return [...this.#tally.tenants.keys()]
      .filter((tenant) => now - queriedAt(tenant) >= QUERY_EVERY_MS)
      .toSorted((a, b) => queriedAt(a) - queriedAt(b))
      .slice(0, Math.max(limit, Math.ceil(this.#tally.tenants.size / POLLS)));
  }

  /**
   * Usage delivered after `at` is not in the sums: it queries tenants with later invoices again.
   */
  async #query(
    tenants: readonly string[],
    at: number,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, InvoicesAnswer>> {
    const { invoices, describe, recheck, clock } = this.#options;
    const answers = new Map<string, InvoicesAnswer>();
    await pLimit(CONCURRENT_QUESTIONS).map([...tenants], async (id) => {
      const query = { tenant: await describe(id), since: at - MEMORY_MS };
      const outcome = await invoices.list(query, signal);
      if (signal.aborted) return;
      this.#queriedAt.set(id, clock.now());
      this.#unanswered.delete(id);
      if (outcome.kind !== 'invoices') {
        if (outcome.kind === 'retry') this.#unanswered.set(id, outcome.reason);
        return;
      }
      if (outcome.recheck === true) recheck(id);
      if (outcome.invoices.some(({ finalizedAt }) => finalizedAt > at)) this.#queriedAt.delete(id);
      else answers.set(id, outcome);
    });
    return answers;
  }

  async #compare(
    given: ReadonlyMap<string, InvoicesAnswer>,
    at: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock } = this.#options;
    const answers = this.#shared(given);
    const cuts = new Map<string, ReadonlyMap<string, Cut>>();
    for (const [id, { invoices, open }] of answers) {
      const tenant = this.#tally.tenants.get(id);
      if (tenant === undefined) continue;
      const ends = [...closings(tenant, invoices, open)].map(
        ([metric, until]) => [metric, { until, finalAt: finalAt(invoices, until) }] as const,
      );
      if (ends.length > 0) cuts.set(id, new Map(ends));
    }
    const divided = await this.#tally.divide(cuts, signal);
    for (const [id, answer] of answers) {
      const tenant = this.#tally.tenants.get(id);
      if (tenant === undefined) continue;
      const closing = divided.get(id);
      this.#tally.touch(id);
      if (cuts.has(id) && closing === undefined) tenant.isComplete = false;
      else {
        const known = { ...answer, since: at - MEMORY_MS };
        applyInvoices(tenant, known, closing ?? new Map(), clock.now());
      }
    }
  }

  /** Assigns the invoice lines of a shared payer to one of its tenants. */
  #shared(answers: ReadonlyMap<string, InvoicesAnswer>): ReadonlyMap<string, InvoicesAnswer> {
    const { tenants } = this.#tally;
    for (const [id, { payer }] of answers) {
      const tenant = tenants.get(id);
      if (tenant !== undefined) Object.assign(tenant, { payer });
    }
    const shared = new Map(answers);
    for (const [bearer, ...others] of payersOf(tenants)) {
      if (others.length === 0) continue;
      // The lines do not separate the tenants, so one incomplete tenant makes all of them
      // incomplete.
      const isComplete = [bearer, ...others].every(([, tenant]) => tenant.isComplete);
      for (const [id, tenant] of [bearer, ...others]) {
        const answer = answers.get(id);
        if (answer === undefined) continue;
        tenant.isComplete = isComplete;
        if (id === bearer[0]) continue;
        const invoices = answer.invoices.map((invoice) => ({ ...invoice, lines: [] }));
        shared.set(id, { ...answer, invoices });
      }
    }
    return shared;
  }

  #expire(now: number): void {
    for (const [id, { metrics }] of this.#tally.tenants) {
      for (const balance of metrics.values()) {
        if (balance.missing === 0n || now - balance.changedAt < MEMORY_MS) continue;
        balance.missing = 0n;
        balance.late = 0n;
        this.#tally.touch(id);
      }
    }
  }
}

/** Returns when the first invoice that reaches `until` was final. */
function finalAt(invoices: readonly FinalInvoice[], until: number): number {
  const reaching = invoices.filter((invoice) => invoice.until >= until);
  const first = least(reaching.map(({ finalizedAt }) => finalizedAt));
  return Number.isFinite(first) ? first : greatest(invoices.map(({ finalizedAt }) => finalizedAt));
}
