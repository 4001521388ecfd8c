import type {
  LabelRequirement,
  TenantMatch,
  TenantMeteringSettings,
  TenantOverrideSettings,
} from '../settings/settings.ts';
import { TENANT_METERING } from '../settings/table/metering.ts';
import { byAge } from './views.ts';

/** The tenant cluster that overrides are matched against. */
interface OverrideTarget {
  readonly namespace: string;
  readonly name: string;
  /** Labels of the Namespace. Trusted labels of the workload override them. */
  readonly labels: Readonly<Record<string, string>>;
}

/** The overrides that match one tenant cluster. */
export interface AppliedOverrides {
  /** Those that apply, most specific first: at most one by name and one by labels. */
  readonly applied: readonly TenantOverrideSettings[];
  /** Those that match as closely as an applied one, but are younger. */
  readonly beaten: readonly {
    readonly override: TenantOverrideSettings;
    readonly by: TenantOverrideSettings;
  }[];
}

/**
 * Selects the overrides of a tenant cluster. For each field a match by namespace and name comes
 * before one by labels. Of two of equal specificity only the older applies
 * (docs/explanation/discovery.md#who-is-billed).
 */
export function applyOverrides(
  target: OverrideTarget,
  overrides: readonly TenantOverrideSettings[],
): AppliedOverrides {
  const matching = overrides.filter(({ match }) => matches(target, match)).toSorted(byAge);
  const applied: TenantOverrideSettings[] = [];
  const beaten: { override: TenantOverrideSettings; by: TenantOverrideSettings }[] = [];
  for (const kind of ['cluster', 'labels'] as const) {
    const [first, ...others] = matching.filter(({ match }) => match.kind === kind);
    if (first === undefined) continue;
    applied.push(first);
    for (const override of others) beaten.push({ override, by: first });
  }
  return { applied, beaten };
}

/** The value of a field in the first override that sets it. */
export function overridden<Field extends keyof TenantOverrideSettings>(
  applied: readonly TenantOverrideSettings[],
  field: Field,
): TenantOverrideSettings[Field] | undefined {
  return applied.find((override) => override[field] !== undefined)?.[field];
}

/** The metering settings of one tenant cluster, with the changes of its overrides. */
export function overriddenMetering(
  metering: TenantMeteringSettings,
  applied: readonly TenantOverrideSettings[],
): TenantMeteringSettings {
  const merged = applied
    .toReversed()
    .reduce((below, override) => ({ ...below, ...override.metering }), metering);
  const stored = Object.entries(merged).filter(([key]) => TENANT_METERING.has(key));
  return Object.fromEntries(stored) as TenantMeteringSettings;
}

function matches({ namespace, name, labels }: OverrideTarget, match: TenantMatch): boolean {
  if (match.kind === 'cluster') return match.namespace === namespace && match.name === name;
  const equal = Object.entries(match.matchLabels);
  // An empty selector would match every tenant cluster, which nobody intends.
  if (equal.length === 0 && match.matchExpressions.length === 0) return false;
  return (
    equal.every(([key, value]) => labels[key] === value) &&
    match.matchExpressions.every((requirement) => isMet(labels, requirement))
  );
}

/** As Kubernetes defines it: NotIn also matches when the label is absent. */
function isMet(
  labels: Readonly<Record<string, string>>,
  { key, operator, values }: LabelRequirement,
): boolean {
  const value = labels[key];
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    default:
      return operator satisfies never;
  }
}
