import type { Settings, SettingsStore } from '../config/settings.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { ControlledKind } from './controlled-kind.ts';
import { translatePolicy } from './policy-settings.ts';
import { policyClaims, policyNumbers, type PolicyViews } from './policy-status.ts';
import { invalidSpec } from '../config/spec-fields.ts';
import type { MeteringPolicySpec } from '../config/custom-resources.generated.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { describeFailure } from '../kubernetes/outcome.ts';
import { resourcePath } from '../kubernetes/resource.ts';
import type { Logger } from '../telemetry/logger.ts';

export interface MeteringPolicyOptions extends PolicyViews {
  readonly settings: SettingsStore;
  /** What holds where the policy says nothing. */
  readonly environment: Settings;
  readonly clock: Clock;
}

/** The only name that there may be. */
export const POLICY_NAME = 'default';
const RETRY_MS = 10_000;

/** MeteringPolicy: how usage is metered; its status is the operator's front page (docs/operations.md#the-front-page). */
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
        return { specStatus: { ...invalidSpec('InvalidName', message), inForce: false } };
      }
      const translation = translatePolicy(spec, environment.metering);
      if (translation.kind === 'invalid') return { specStatus: { ...translation, inForce } };
      settings.setPolicy(translation.settings);
      inForce = true;
      return { specStatus: { kind: 'accepted' } };
    },

    async remove(name) {
      if (name === POLICY_NAME) {
        settings.setPolicy(undefined);
        inForce = false;
      }
      return { kind: 'removed' };
    },

    report(_, specStatus) {
      const { windowMs } = settings.current().metering;
      return {
        settled: options.tenants.known() && windows.lastWindowEnd() !== undefined,
        claims: policyClaims(specStatus, options, windowMs, clock.now()),
        numbers: policyNumbers(options, windowMs),
      };
    },
  };
}

export interface DefaultPolicyOptions {
  readonly connection: Pick<Connection, 'request'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly retryMs?: number;
}

/**
 * Creates the MeteringPolicy `default`, empty, unless there is one. The operator does it because kubectl
 * cannot create an object in the same command as its CustomResourceDefinition. Tries until it is there.
 */
export async function ensureDefaultPolicy(
  options: DefaultPolicyOptions,
  signal: AbortSignal,
): Promise<void> {
  const { connection, clock, logger, retryMs = RETRY_MS } = options;
  let lastFailure = '';
  while (!signal.aborted) {
    const outcome = await connection.request(
      resourcePath({ group: 'meterfeed.io', version: 'v1alpha1', plural: 'meteringpolicies' }),
      {
        method: 'POST',
        body: {
          apiVersion: 'meterfeed.io/v1alpha1',
          kind: 'MeteringPolicy',
          metadata: { name: POLICY_NAME, labels: { 'app.kubernetes.io/name': 'meterfeed' } },
          spec: {},
        },
        signal,
      },
    );
    if (outcome.kind === 'ok' || (outcome.kind === 'status' && outcome.code === 409)) return;
    const failure = describeFailure(outcome);
    if (failure !== lastFailure && !signal.aborted) {
      logger.warn(`[controller] cannot create MeteringPolicy "${POLICY_NAME}": ${failure}`);
    }
    lastFailure = failure;
    await clock.sleep(retryMs, signal).catch(() => undefined);
  }
}
