import type { WriteOutcome } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { StateStore } from './states/state-store.ts';
import {
  applyBudget,
  budgetEntry,
  type BudgetStatement,
  effectiveState,
  newRecord,
  type TenantRecord,
} from './states/tenant-record.ts';

/** Durably records the budgets' states of tenants in one write. Known ones change nothing. */
export async function recordBudgetStates(
  stated: readonly BudgetStatement[],
  {
    states,
    onChange,
    clock,
    logger,
  }: {
    readonly states: StateStore;
    readonly onChange: () => void;
    readonly clock: Clock;
    readonly logger: Logger;
  },
): Promise<WriteOutcome> {
  const now = clock.now();
  const changed = stated.flatMap((statement) => {
    const record = states.find(statement.tenant);
    return isKnown(statement, record)
      ? []
      : [applyBudget(record ?? newRecord(statement.tenant, now), statement, now)];
  });
  if (changed.length === 0) return { kind: 'written' };
  const outcome = await states.putAll(changed);
  if (outcome.kind === 'failed') return outcome;
  for (const record of changed) {
    const { tenant } = record;
    const { state } = effectiveState(record);
    const stated = budgetEntry(record)?.state ?? 'active';
    logger.info(`[enforcement] ${tenant} is ${state} after its budget gave ${stated}`, {
      tenant,
      state,
    });
  }
  onChange();
  return outcome;
}

function isKnown({ state, reason }: BudgetStatement, record: TenantRecord | undefined): boolean {
  const before = budgetEntry(record);
  if (before === undefined) return state === 'active';
  return before.state === state && before.reason === reason;
}
