import type { TenantMatch, TenantOverrideSettings } from '../config/settings.ts';
import { queryProblem } from './query-fields.ts';
import { invalidSpec, type Translation } from '../config/spec-fields.ts';
import type { TenantOverrideSpec } from '../config/custom-resources.generated.ts';

/** The settings that a TenantOverride asks for (design 4). `createdAt` is in milliseconds since the epoch. */
export function translateOverride(
  name: string,
  createdAt: number,
  spec: TenantOverrideSpec,
): Translation<TenantOverrideSettings> {
  const { match, enforcement, ...overridden } = spec;
  const tenants = translateMatch(match);
  if (tenants === undefined) {
    const mend = 'give either namespace and name, or a selector with at least one requirement';
    return invalidSpec('InvalidSpec', `spec.match: names no tenant cluster; ${mend}`);
  }
  const query = queryProblem(spec.metering ?? {}, 'spec.metering');
  if (query !== undefined) return query;
  return {
    kind: 'settings',
    settings: {
      name,
      createdAt,
      match: tenants,
      ...overridden,
      ...(enforcement !== undefined && { enforcementExempt: enforcement === 'exempt' }),
    },
  };
}

/** Undefined when it would match nothing, or everything: both are mistakes. */
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
