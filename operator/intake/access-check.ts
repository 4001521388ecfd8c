import type { TenantBillingState } from '../billing/enforcement/enforcement.ts';
import type { UnclosedUsage } from '../billing/budgets/account.ts';
import type { BudgetController } from '../billing/budgets/budget-controller.ts';
import type { BudgetLeft } from '../billing/budgets/budget-left.ts';

export interface AccessCheckOptions {
  readonly budgets: Pick<BudgetController, 'staleMs' | 'position' | 'left'>;
  /**
   * A tenant's usage that the ledger does not have up to a sequence number. Undefined while it is
   * unknown.
   */
  readonly openUsage: (tenant: string, position: number) => readonly UnclosedUsage[] | undefined;
  readonly isKnown: (tenant: string) => boolean;
  readonly billingState: (
    tenant: string,
  ) => Pick<TenantBillingState, 'state' | 'reason' | 'manual'>;
  /** Returns true for a tenant that is never suspended. */
  readonly isSpared: (tenant: string) => boolean;
}

/** Whether a tenant may send a request that uses a metric. */
export interface AccessAnswer {
  readonly kind: 'answered';
  readonly hasAccess: boolean;
  readonly reason?: 'usage_limit_reached' | 'suspended' | 'unknown_tenant';
  readonly state: TenantBillingState['state'];
  /** The tenant's budget if it limits the metric. */
  readonly left?: BudgetLeft;
  /** The age of the answer, milliseconds. */
  readonly staleMs: number;
}

/** Older answers are none: the gateway's own policy decides. */
const MAX_STALE_MS = 1000;

/**
 * Answers from memory whether a tenant may use more (docs/how-to/ai-gateways.md#access). Its budget
 * is the account of the ledger together with the requests that are not in the ledger yet.
 */
export class AccessCheck {
  readonly #options: AccessCheckOptions;

  constructor(options: AccessCheckOptions) {
    this.#options = options;
  }

  /**
   * 1. An unknown tenant has access: its usage is held.
   * 2. A state that a person set decides alone.
   * 3. Without a budget for the metric the billing state decides.
   * 4. Otherwise a spent budget refuses too.
   */
  of(tenant: string, metric: string): AccessAnswer | { readonly kind: 'unknown' } {
    const { budgets, openUsage, isKnown, billingState, isSpared } = this.#options;
    const { staleMs } = budgets;
    const open = openUsage(tenant, budgets.position);
    if (staleMs > MAX_STALE_MS || open === undefined) return { kind: 'unknown' };
    const { state, manual } = billingState(tenant);
    if (!isKnown(tenant)) {
      return { kind: 'answered', hasAccess: true, reason: 'unknown_tenant', state, staleMs };
    }
    const found = budgets.left(tenant, open);
    const limits = found !== undefined && isAbout(found, metric);
    const left = limits ? found : undefined;
    const isSuspended = state === 'suspended' && !isSpared(tenant);
    const isSpent = left?.isSpent === true && !manual;
    const reason = isSpent ? 'usage_limit_reached' : isSuspended ? 'suspended' : undefined;
    return { kind: 'answered', hasAccess: reason === undefined, reason, state, left, staleMs };
  }
}

/** Money covers every metric. */
function isAbout({ budget: { counts } }: BudgetLeft, metric: string): boolean {
  return counts.kind === 'money' || counts.metric === metric;
}
