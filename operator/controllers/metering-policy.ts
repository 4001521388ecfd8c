import type { Settings, SettingsStore } from '../config/settings.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { ControlledKind } from './controller.ts';
import { translatePolicy } from './policy-settings.ts';
import { policyClaims, policyNumbers, type PolicyViews } from './policy-status.ts';
import { invalidSpec } from '../config/spec-fields.ts';
import type { MeteringPolicySpec } from '../config/custom-resources.generated.ts';

export interface MeteringPolicyOptions extends PolicyViews {
  readonly settings: SettingsStore;
  /** What holds where the policy says nothing. */
  readonly environment: Settings;
  readonly clock: Clock;
}

/** The only name that there may be (design 4). */
export const POLICY_NAME = 'default';

/** MeteringPolicy: how usage is metered; its status is the operator's front page (design 4). */
export function meteringPolicies(
  options: MeteringPolicyOptions,
): ControlledKind<MeteringPolicySpec> {
  const { settings, environment, windows, clock } = options;
  let inForce = false;

  return {
    resource: { group: 'meterfeed.io', version: 'v1alpha1', plural: 'meteringpolicies' },
    kind: 'MeteringPolicy',

    async act({ name, spec }) {
      // The schema refuses other names; one of another release may not have.
      if (name !== POLICY_NAME) {
        const message = `metadata.name: not the policy in force: "${name}"; name it "${POLICY_NAME}"`;
        return { verdict: { ...invalidSpec('InvalidName', message), inForce: false } };
      }
      const translation = translatePolicy(spec, environment.metering);
      if (translation.kind === 'invalid') return { verdict: { ...translation, inForce } };
      settings.setPolicy(translation.settings);
      inForce = true;
      return { verdict: { kind: 'accepted' } };
    },

    async remove(name) {
      if (name === POLICY_NAME) {
        settings.setPolicy(undefined);
        inForce = false;
      }
      return { kind: 'removed' };
    },

    report(_, verdict) {
      const { windowMs } = settings.current().metering;
      return {
        settled: options.tenants.known() && windows.lastWindowEnd() !== undefined,
        claims: policyClaims(verdict, options, windowMs, clock.now()),
        numbers: policyNumbers(options, windowMs),
      };
    },
  };
}
