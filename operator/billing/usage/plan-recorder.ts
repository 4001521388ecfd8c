import type { Ledger } from '../../ledger/ledger.ts';
import { errorText } from '../../model/error-text.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { type PlanHistory, planRecordKey, readPlanHistories, withPlan } from './plan-history.ts';

const POLL_MS = 10_000;

/**
 * Records which plan each tenant was on when. So a change of plan does not reprice earlier usage,
 * and a departed tenant keeps its prices (docs/how-to/costs.md#plans-and-their-changes).
 */
export class PlanRecorder {
  readonly #options;
  /** The records of the ledger; undefined until they are read. */
  #histories: Map<string, PlanHistory> | undefined;
  #lastFailure: string | undefined;

  constructor(options: {
    readonly ledger: Pick<Ledger, 'records' | 'writeRecords'>;
    /** False until discovery knows the tenants. */
    readonly known: () => boolean;
    readonly tenants: () => readonly Pick<Tenant, 'id' | 'plan' | 'planChange'>[];
    /** The plan of tenants without one. */
    readonly defaultPlan: () => string;
    readonly clock: Pick<Clock, 'now' | 'sleep'>;
    readonly logger: Pick<Logger, 'warn'>;
  }) {
    this.#options = options;
  }

  /** Writes the plans that changed. Never rejects: a failed write is retried in the next poll. */
  async poll(): Promise<void> {
    try {
      this.#report(await this.#write());
    } catch (error) {
      this.#report(errorText(error));
    }
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.poll();
      await this.#options.clock.sleep(POLL_MS, signal).catch(() => undefined);
    }
  }

  /** Returns why the write failed; undefined when everything is written. */
  async #write(): Promise<string | undefined> {
    const { ledger, known } = this.#options;
    if (!known()) return undefined;
    this.#histories ??= await this.#read();
    const histories = this.#histories;
    const changes = this.#changes(histories);
    if (changes.length === 0) return undefined;
    const records = changes.map(([tenant, history]) => ({
      key: planRecordKey(tenant),
      value: JSON.stringify(history),
    }));
    const outcome = await ledger.writeRecords(records);
    if (outcome.kind === 'failed') return outcome.message;
    for (const [tenant, history] of changes) histories.set(tenant, history);
    return undefined;
  }

  #changes(
    histories: ReadonlyMap<string, PlanHistory>,
  ): readonly (readonly [tenant: string, history: PlanHistory])[] {
    const { tenants, defaultPlan, clock } = this.#options;
    const now = new Date(clock.now());
    const today = now.toISOString().slice(0, 10);
    const nextMonth = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1));
    return tenants().flatMap(({ id, plan = defaultPlan(), planChange }) => {
      const before = histories.get(id) ?? [];
      const from = planChange === 'period-end' ? nextMonth.toISOString().slice(0, 10) : today;
      const next = withPlan(before, plan, from);
      return next === before ? [] : [[id, next] as const];
    });
  }

  async #read(): Promise<Map<string, PlanHistory>> {
    const { ledger, logger } = this.#options;
    const histories = await readPlanHistories(ledger, (key) => {
      const effect = 'the plan of today counts for all of its usage';
      logger.warn(`[http] a record of the plans of a tenant is damaged: ${effect}`, { key });
    });
    return new Map(histories);
  }

  /** Logs each cause once. */
  #report(failure: string | undefined): void {
    if (failure !== undefined && failure !== this.#lastFailure) {
      this.#options.logger.warn(`[http] the plans of tenants could not be recorded: ${failure}`);
    }
    this.#lastFailure = failure;
  }
}
