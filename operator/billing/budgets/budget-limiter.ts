import { hash } from 'node:crypto';
import pLimit from 'p-limit';
import type { Enforcement } from '../enforcement/enforcement.ts';
import type { RecordChange, RecordStore } from '../../ledger/ledger.ts';
import { Backoff } from '../../model/backoff.ts';
import { errorText } from '../../model/error-text.ts';
import { least } from '../../model/extremes.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import type { GivenBudget } from './budget-of.ts';
import type { StoredBudget } from './make-accounts.ts';
import { loadMemories, memoryRecord } from './memories.ts';
import { amountText } from './budget-state.ts';
import { unitText } from './unit.ts';
import { type BudgetMemory, type Crossing, evaluate, periodOf } from './evaluate.ts';

/** A threshold that a tenant has reached. */
export interface ReachedThreshold extends GivenBudget {
  readonly tenant: string;
  readonly percent: number;
  /** The beginning of the period, milliseconds since the epoch. */
  readonly since: number;
  /** When the operator saw it, milliseconds since the epoch. */
  readonly at: number;
  /** Identifies this threshold in this period. The same after a restart. */
  readonly id: string;
}

/** Outcome of reporting a threshold: every destination has it, or some lack it for a reason. */
export type NotifyOutcome =
  | { readonly kind: 'notified' }
  | { readonly kind: 'waiting'; readonly notified: readonly string[]; readonly reason: string };

const REPORTED_AT_ONCE = 4;
const RETRY = { baseMs: 1_000, capMs: 60_000 };

/**
 * Acts on the usage of budgets: reports thresholds, and suspends or releases tenants
 * (docs/how-to/budgets.md#thresholds). Records each decision durably before it acts.
 */
export class BudgetLimiter {
  readonly #options;
  /** Undefined until the records are read. */
  #memories: Map<string, BudgetMemory> | undefined;
  #stored: ReadonlyMap<string, StoredBudget> = new Map();
  /** When each tenant must be evaluated again if nothing changes, milliseconds since the epoch. */
  readonly #dueAt = new Map<string, number>();
  /** Ids of the thresholds that were unreported after the last evaluation. */
  #attempted: ReadonlySet<string> = new Set();
  readonly #enqueue = pLimit(1);
  #wake = new AbortController();

  constructor(options: {
    readonly ledger: RecordStore;
    readonly enforcement: Pick<Enforcement, 'applyBudgets' | 'limitedByBudgets'>;
    /** Returns true for a tenant that is only warned, whatever its budget asks for. */
    readonly isSpared: (tenant: string) => boolean;
    /**
     * Reports a threshold to every destination outside `reportedTo`. On `waiting` it is retried
     * with the same id.
     */
    readonly notify: (
      reached: ReachedThreshold,
      reportedTo: ReadonlySet<string>,
    ) => Promise<NotifyOutcome>;
    readonly clock: Clock;
    readonly random: () => number;
    readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  }) {
    this.#options = options;
  }

  /** Returns whether the budget of a tenant may suspend it. */
  maySuspend(tenant: string): boolean {
    return !this.#options.isSpared(tenant);
  }

  stateOf(tenant: string): BudgetMemory['state'] {
    return this.#memories?.get(tenant)?.state ?? 'active';
  }

  /** When any tenant last reached each percentage in its current period, ms since the epoch. */
  reachedAt(): ReadonlyMap<number, number> {
    const latest = new Map<number, number>();
    for (const tenant of this.#stored.keys()) {
      for (const { percent, at } of this.#memories?.get(tenant)?.crossed ?? []) {
        latest.set(percent, Math.max(at, latest.get(percent) ?? 0));
      }
    }
    return latest;
  }

  /** When the next tenant is due; `Infinity` when none is. */
  get nextAt(): number {
    return least([...this.#dueAt.values()]);
  }

  /** Removes due tenants from the timers and returns them. The caller must evaluate them. */
  take(now: number): readonly string[] {
    const due = [...this.#dueAt].flatMap(([tenant, at]) => (at <= now ? [tenant] : []));
    for (const tenant of due) this.#dueAt.delete(tenant);
    return due;
  }

  /**
   * Evaluates tenants and acts on the results. Rejects when a result cannot be recorded: evaluate
   * these tenants again then.
   */
  evaluate(input: {
    readonly stored: ReadonlyMap<string, StoredBudget>;
    readonly tenants: Iterable<string>;
    /** As in {@link Evaluated}. */
    readonly isComplete: boolean;
  }): Promise<void> {
    return this.#enqueue(async () => {
      const { stored, tenants, isComplete } = input;
      const memories = await this.#read();
      this.#stored = stored;
      const decided = new Map<string, { memory: BudgetMemory; nextAt: number }>();
      const slice = new TimeSlice(this.#options.clock);
      for (const tenant of tenants) {
        const given = stored.get(tenant);
        if (given === undefined) continue;
        const maySuspend = this.maySuspend(tenant);
        const memory = memories.get(tenant);
        const evaluated = { ...given, maySuspend, memory, isComplete };
        decided.set(tenant, evaluate(evaluated, this.#options.clock.now()));
        this.#dueAt.delete(tenant);
        if (slice.isOver) await slice.next();
      }
      await this.#remember(new Map([...decided].map(([tenant, { memory }]) => [tenant, memory])));
      await this.#applyStates([...decided.keys()]);
      for (const [tenant, { nextAt }] of decided) this.#dueAt.set(tenant, nextAt);
      const unreported = this.#unreported().map(({ reached }) => reached.id);
      // A new threshold is reported at once; one whose report failed waits for its retry.
      if (unreported.some((id) => !this.#attempted.has(id))) this.#wake.abort();
      this.#attempted = new Set(unreported);
    });
  }

  /** Reports thresholds until the signal is aborted. Never rejects: a failed report is retried. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, logger } = this.#options;
    const limit = pLimit(REPORTED_AT_ONCE);
    const backoff = new Backoff({ ...RETRY, random });
    let lastFailure = '';
    while (!signal.aborted) {
      this.#wake = new AbortController();
      const failures: string[] = [];
      await Promise.all(
        this.#unreported().map((reached) =>
          limit(async () => {
            if (signal.aborted) return;
            const failure = await this.#report(reached);
            if (failure !== undefined) failures.push(failure);
          }),
        ),
      );
      const [failure = ''] = failures;
      if (failure !== '' && failure !== lastFailure) logger.warn(`[budgets] ${failure}`);
      lastFailure = failure;
      if (failure === '') backoff.reset();
      const either = AbortSignal.any([signal, this.#wake.signal]);
      const wait = failure === '' ? IDLE_MS : backoff.next();
      await clock.sleep(wait, either).catch(() => undefined);
    }
  }

  async #read(): Promise<Map<string, BudgetMemory>> {
    const { ledger, logger } = this.#options;
    if (this.#memories !== undefined) return this.#memories;
    const { memories, problems } = await loadMemories(ledger);
    for (const problem of problems) logger.error(`[budgets] ${problem}`);
    this.#memories = memories;
    return memories;
  }

  /** Durably records changes. Deletes records of removed budgets whose period is over. */
  async #remember(decided: ReadonlyMap<string, BudgetMemory>): Promise<void> {
    const { ledger, clock } = this.#options;
    const memories = await this.#read();
    const now = clock.now();
    const gone = [...memories].flatMap(([tenant, { to }]) =>
      !this.#stored.has(tenant) && to <= now ? [tenant] : [],
    );
    const news = [...decided].filter(
      ([tenant, memory]) => JSON.stringify(memories.get(tenant)) !== JSON.stringify(memory),
    );
    const changes: readonly RecordChange[] = [
      ...gone.map((tenant) => memoryRecord(tenant, undefined)),
      ...news.map(([tenant, memory]) => memoryRecord(tenant, memory)),
    ];
    if (changes.length === 0) return;
    const outcome = await ledger.writeRecords(changes);
    if (outcome.kind === 'failed') throw new Error(outcome.message);
    for (const tenant of gone) memories.delete(tenant);
    for (const [tenant, memory] of news) memories.set(tenant, memory);
  }

  /** Gives the states of budgets to enforcement. Releases limited tenants that have no budget. */
  async #applyStates(evaluated: readonly string[]): Promise<void> {
    const { enforcement } = this.#options;
    const free = enforcement.limitedByBudgets().filter((tenant) => !this.#stored.has(tenant));
    const outcome = await enforcement.applyBudgets([
      ...evaluated.map((tenant) => ({
        tenant,
        state: this.stateOf(tenant),
        reason: reasonOf(this.#stored.get(tenant)),
      })),
      ...free.map((tenant) => ({ tenant, state: 'active' as const, reason: '' })),
    ]);
    if (outcome.kind === 'failed') throw new Error(outcome.message);
  }

  #unreported(): readonly Unreported[] {
    return [...this.#stored].flatMap(([tenant, { budget, override }]) => {
      const crossed = this.#memories?.get(tenant)?.crossed ?? [];
      return crossed.flatMap((crossing) => {
        if (crossing.notified) return [];
        const { percent, at, notifiedTo: reportedTo = [] } = crossing;
        const [id, since] = [idOf(tenant, budget, crossing), periodOf(budget, crossing)];
        const reached = { tenant, percent, at, id, since, budget, override };
        return [{ reached, reportedTo: new Set(reportedTo) }];
      });
    });
  }

  /** Returns why the threshold could not be reported; undefined once reported and recorded. */
  async #report({ reached, reportedTo }: Unreported): Promise<string | undefined> {
    const { tenant, percent } = reached;
    const what = `threshold of ${percent} % of tenant "${tenant}"`;
    try {
      const outcome = await this.#options.notify(reached, reportedTo);
      if (outcome.kind === 'notified') {
        await this.#note(reached, { notified: true });
        this.#options.logger.info(`[budgets] ${what} is reached`, { tenant, percent });
        return undefined;
      }
      if (outcome.notified.length > reportedTo.size) {
        await this.#note(reached, { notified: false, notifiedTo: outcome.notified });
      }
      return `${what} is not reported yet: ${outcome.reason}`;
    } catch (error) {
      return `${what} is not reported yet: ${errorText(error)}`;
    }
  }

  /** Durably records which destinations have a threshold. */
  #note(
    { tenant, percent, budget, id }: ReachedThreshold,
    reported: Pick<Crossing, 'notified' | 'notifiedTo'>,
  ): Promise<void> {
    return this.#enqueue(async () => {
      const memory = this.#memories?.get(tenant);
      if (memory === undefined) return;
      const crossed = memory.crossed.map((one): Crossing => {
        const { percent: reached, at } = one;
        const isMeant = reached === percent && idOf(tenant, budget, one) === id;
        return isMeant ? { percent, at, ...reported } : one;
      });
      await this.#remember(new Map([[tenant, { ...memory, crossed }]]));
    });
  }
}

/** A threshold, and the destinations that have it. */
interface Unreported {
  readonly reached: ReachedThreshold;
  readonly reportedTo: ReadonlySet<string>;
}

/** The wait when nothing is to be reported; a wake-up ends it. */
const IDLE_MS = 3_600_000;

function idOf(tenant: string, budget: GivenBudget['budget'], crossing: Crossing): string {
  const of = [tenant, crossing.percent, periodOf(budget, crossing), amountOf(budget)];
  return hash('sha256', JSON.stringify(of), 'hex').slice(0, 20);
}

function reasonOf(stored: StoredBudget | undefined): string {
  if (stored === undefined) return '';
  const { budget } = stored;
  return budget.period.kind === 'prepaid'
    ? `the prepaid balance in ${unitText(budget)} is used up`
    : `the budget of ${amountOf(budget)} is used up`;
}

/** `500.00 EUR` */
export function amountOf(budget: GivenBudget['budget']): string {
  return `${amountText(budget.counts, budget.amount)} ${unitText(budget)}`;
}
