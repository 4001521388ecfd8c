import type {
  TenantOverrideSpec,
  TenantOverrideStatus,
} from '../settings/custom-resources.generated.ts';
import type { SettingsStore, TenantMatch, TenantOverrideSettings } from '../settings/settings.ts';
import { invalidSpec, tableFields, type Translation } from '../settings/spec-fields.ts';
import { METERING } from '../settings/table/metering.ts';
import type { OverrideUse } from '../discovery/discover.ts';
import { quote } from '../model/validate-event.ts';
import { type ConditionClaim, readyBySpec, type SpecStatus, stalledClaims } from './conditions.ts';
import { translateBudget } from './budget-settings.ts';
import { budgetFields } from './budget-status.ts';
import type { ControlledKind } from './controlled-kind.ts';
import type { BillingView, TenantsView } from './views.ts';
import type { BudgetController } from '../billing/budgets/budget-controller.ts';

/** Most items in the status. HTTP returns all of them. */
const MOST_ITEMS = 100;
const MOST_RIVALS = 5;

/**
 * Returns the controlled kind TenantOverride: the billing of certain tenant clusters, before all
 * other sources (docs/explanation/discovery.md#who-is-billed).
 */
export function tenantOverrides(options: {
  readonly settings: SettingsStore;
  readonly tenants: TenantsView;
  readonly delivery: Pick<BillingView, 'list'>;
  readonly budgets: Pick<BudgetController, 'list'>;
}): ControlledKind<TenantOverrideSpec> {
  const { settings, tenants, delivery, budgets } = options;
  const isInForce = (name: string): boolean =>
    settings.current().overrides.some((override) => override.name === name);

  return {
    resource: { group: 'meterfeed.io', version: 'v1alpha1', plural: 'tenantoverrides' },
    kind: 'TenantOverride',

    async act({ name, createdAt, spec }) {
      const translation = translateOverride(name, createdAt, spec);
      if (translation.kind === 'invalid') {
        return { specStatus: { ...translation, inForce: isInForce(name) } };
      }
      settings.setOverride(name, translation.settings);
      return { specStatus: { kind: 'accepted' } };
    },

    async remove(name) {
      settings.setOverride(name, undefined);
      return { kind: 'removed' };
    },

    report({ name, spec }, specStatus) {
      const facts = { name, specStatus, tenants, delivery, plan: spec.plan };
      return {
        settled: tenants.known() || specStatus.kind === 'invalid',
        claims: overrideClaims(facts),
        fields: {
          ...overrideFields(facts),
          ...budgetFields(spec.budget === undefined ? [] : budgets.list(name)),
        },
      };
    },
  };
}

/**
 * Translates the spec of a TenantOverride into settings
 * (docs/explanation/discovery.md#who-is-billed). `createdAt` is milliseconds since the epoch.
 */
export function translateOverride(
  name: string,
  createdAt: number,
  spec: TenantOverrideSpec,
): Translation<TenantOverrideSettings> {
  const { match, enforcement, budget: budgetSpec, ...overridden } = spec;
  const tenants = translateMatch(match);
  if (tenants === undefined) {
    const fix = 'give either namespace and name, or a selector with at least one requirement';
    return invalidSpec('InvalidSpec', `spec.match: names no tenant cluster; ${fix}`);
  }
  const metering = tableFields(METERING, 'TenantOverride spec.metering', spec.metering ?? {});
  if (metering.kind === 'invalid') return metering;
  const zone = spec.billing?.timeZone;
  if (zone !== undefined && !isTimeZone(zone)) {
    const fix = 'give one such as Europe/Berlin';
    return invalidSpec('InvalidSpec', `spec.billing.timeZone: unknown: ${quote(zone)}; ${fix}`);
  }
  const budget = budgetSpec && translateBudget('spec.budget', budgetSpec);
  if (budget?.kind === 'problems') return invalidSpec('InvalidSpec', budget.problems.join('; '));
  return {
    kind: 'settings',
    settings: {
      name,
      createdAt,
      match: tenants,
      ...overridden,
      budget: budget?.budget,
      ...(enforcement !== undefined && { enforcementExempt: enforcement === 'exempt' }),
    },
  };
}

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

/** Returns the match; undefined if it would match nothing or everything, which are mistakes. */
function translateMatch(match: TenantOverrideSpec['match']): TenantMatch | undefined {
  const { namespace, name, selector } = match;
  if (namespace !== undefined && name !== undefined && selector === undefined) {
    return { kind: 'cluster', namespace, name };
  }
  const matchLabels = selector?.matchLabels ?? {};
  const expressions = selector?.matchExpressions ?? [];
  if (Object.keys(matchLabels).length + expressions.length === 0) return undefined;
  const matchExpressions = expressions.map(({ key, operator, values }) => ({
    key,
    operator,
    values: values ?? [],
  }));
  return { kind: 'labels', matchLabels, matchExpressions };
}

/** The facts about an override for its status. */
export interface OverrideFacts {
  readonly name: string;
  readonly specStatus: SpecStatus;
  readonly tenants: TenantsView;
  readonly delivery: Pick<BillingView, 'list'>;
  /** `spec.plan` */
  readonly plan?: string;
}

/**
 * Returns `Ready`, and `Conflicting`, `PlanUnusable` and `Stalled` if true
 * (docs/reference/troubleshooting.md#conditions).
 */
export function overrideClaims(facts: OverrideFacts): readonly ConditionClaim[] {
  const ready = readyBySpec(facts.specStatus) ?? readyByUse(facts);
  return [
    ready,
    ...conflictingClaims(facts),
    ...planClaims(facts),
    ...stalledClaims(facts.specStatus),
  ];
}

/** Returns the fields of the status beside conditions and generation. */
export function overrideFields(facts: OverrideFacts): TenantOverrideStatus {
  const use = useOf(facts);
  if (use === undefined) return {};
  return { matched: { total: use.applied.length, items: use.applied.slice(0, MOST_ITEMS) } };
}

/** Returns where the override applies; undefined until a discovery pass has evaluated it. */
function useOf({ name, tenants }: OverrideFacts): OverrideUse | undefined {
  return tenants.overrides().find((use) => use.name === name);
}

function readyByUse(facts: OverrideFacts): ConditionClaim {
  const type = 'Ready';
  const use = useOf(facts);
  if (use === undefined) {
    const message = 'Takes effect with the next discovery of tenant clusters';
    return { type, status: 'Unknown', reason: 'Starting', message };
  }
  if (use.applied.length > 0) {
    const message = 'In force for the tenant clusters of status.matched';
    return { type, status: 'True', reason: 'InForce', message };
  }
  if (use.conflicts.length > 0) {
    const message = 'Older overrides apply to all tenant clusters that spec.match matches';
    return { type, status: 'False', reason: 'OlderApplies', message };
  }
  const message = 'In force, and no tenant cluster matches spec.match';
  const brief = 'no tenant cluster matches spec.match';
  return { type, status: 'True', reason: 'NothingMatched', message, brief };
}

/**
 * Returns `Conflicting` on both of two overrides that match a tenant cluster equally closely. The
 * older one applies.
 */
function conflictingClaims(facts: OverrideFacts): readonly ConditionClaim[] {
  const [type, status] = ['Conflicting', 'True'] as const;
  const older = useOf(facts)?.conflicts.map(({ overriddenBy }) => overriddenBy) ?? [];
  if (older.length > 0) {
    const message = `Some of the same tenant clusters are matched by the older ${quoted(older)}, which applies there`;
    return [
      { type, status, reason: 'OlderApplies', message, brief: `with the older ${quoted(older)}` },
    ];
  }
  const younger = facts.tenants
    .overrides()
    .filter(({ conflicts }) => conflicts.some(({ overriddenBy }) => overriddenBy === facts.name))
    .map(({ name }) => name);
  if (younger.length === 0) return [];
  const message = `Some of the same tenant clusters are matched by the younger ${quoted(younger)}, which does not apply there`;
  const brief = `with the younger ${quoted(younger)}`;
  return [{ type, status, reason: 'YoungerIgnored', message, brief }];
}

/**
 * Returns `PlanUnusable` if a billing system refuses `spec.plan` or has no price in it. Only
 * billing systems know their plans, and they answer at provisioning. The user sees the answer where
 * the plan is written.
 */
function planClaims(facts: OverrideFacts): readonly ConditionClaim[] {
  const { plan, tenants, delivery } = facts;
  if (plan === undefined) return [];
  const applied = new Set(useOf(facts)?.applied);
  const clusters = tenants.clusters().filter(({ id }) => applied.has(id));
  const [type, status] = ['PlanUnusable', 'True'] as const;
  const name = quote(plan);
  for (const destination of delivery.list()) {
    const parked = destination.parkedTenants.find(
      ({ tenant, reason }) =>
        reason.includes(name) && clusters.some((cluster) => cluster.tenant === tenant),
    );
    if (parked === undefined) continue;
    const message = `spec.plan is refused by destination "${destination.name}": tenant "${parked.tenant}": ${parked.reason}; its usage waits there until the plan exists or spec.plan names another one`;
    const brief = `refused by "${destination.name}": ${parked.reason}`;
    return [{ type, status, reason: 'TenantsParked', message, brief }];
  }
  const unpriced = delivery
    .list()
    .find((destination) => destination.unpriced.some((usage) => usage.plan === plan));
  if (unpriced === undefined || clusters.length === 0) return [];
  const message = `spec.plan has no price for some usage at destination "${unpriced.name}": ${name}; if the plan is not misspelled, set a price there`;
  const brief = `no price for some usage at "${unpriced.name}"`;
  return [{ type, status, reason: 'NoPrice', message, brief }];
}

function quoted(names: readonly string[]): string {
  return [...new Set(names)]
    .toSorted()
    .slice(0, MOST_RIVALS)
    .map((name) => `"${name}"`)
    .join(', ');
}
