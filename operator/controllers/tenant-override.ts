import type { SettingsStore } from '../config/settings.ts';
import type { ControlledKind } from './controller.ts';
import { translateOverride } from './override-settings.ts';
import { overrideClaims, overrideNumbers } from './override-status.ts';
import type { TenantOverrideSpec } from '../config/custom-resources.generated.ts';
import type { TenantsView } from './views.ts';

export interface TenantOverrideOptions {
  readonly settings: SettingsStore;
  readonly tenants: TenantsView;
}

/** TenantOverride: how certain tenant clusters are billed, whatever else says so (design 4). */
export function tenantOverrides(
  options: TenantOverrideOptions,
): ControlledKind<TenantOverrideSpec> {
  const { settings, tenants } = options;
  const isInForce = (name: string): boolean =>
    settings.current().overrides.some((override) => override.name === name);

  return {
    resource: { group: 'meterfeed.io', version: 'v1alpha1', plural: 'tenantoverrides' },
    kind: 'TenantOverride',

    async act({ name, createdAt, spec }) {
      const translation = translateOverride(name, createdAt, spec);
      if (translation.kind === 'invalid') {
        return { verdict: { ...translation, inForce: isInForce(name) } };
      }
      settings.setOverride(name, translation.settings);
      return { verdict: { kind: 'accepted' } };
    },

    async remove(name) {
      settings.setOverride(name, undefined);
      return { kind: 'removed' };
    },

    report({ name }, verdict) {
      const facts = { name, verdict, tenants };
      return {
        settled: tenants.known() || verdict.kind === 'invalid',
        claims: overrideClaims(facts),
        numbers: overrideNumbers(facts),
      };
    },
  };
}
