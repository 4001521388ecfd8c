import type { MeteringPolicySpec } from '../settings/custom-resources.generated.ts';
import type { Settings, SettingsStore } from '../settings/settings.ts';
import { invalidSpec } from '../settings/spec-fields.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { describeFailure } from '../kubernetes/outcome.ts';
import { resourcePath } from '../kubernetes/resource.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Acted, ControlledKind } from './controlled-kind.ts';
import {
  policySecretNames,
  type PrometheusServer,
  translateFocusExport,
  translatePolicy,
  translateServer,
} from './policy-settings.ts';
import { policyClaims, policyFields, type PolicyViews } from './policy-status.ts';
import {
  SECRET_INTERVAL_MS,
  SECRET_RETRY_MS,
  type SecretReader,
  unreadSecret,
} from './secret-reader.ts';

/** The only valid name. */
export const POLICY_NAME = 'default';
const RETRY_MS = 10_000;

/**
 * Returns the controlled kind MeteringPolicy: the settings of metering. Its status is the
 * operator's front page (docs/how-to/operate.md#the-front-page).
 */
export function meteringPolicies(
  options: PolicyViews & {
    readonly settings: SettingsStore;
    /** The settings for fields that the policy leaves out. */
    readonly environment: Settings;
    readonly secrets: SecretReader;
    /** Interval between reads of the Secrets that the policy names. */
    readonly secretIntervalMs?: number;
    readonly clock: Clock;
  },
): ControlledKind<MeteringPolicySpec> {
  const { settings, environment, windows, secrets, clock } = options;
  const intervalMs = options.secretIntervalMs ?? SECRET_INTERVAL_MS;
  let inForce = false;
  /** The last Prometheus server with all credentials, and the generation of its spec. */
  let complete: { readonly server: PrometheusServer; readonly generation: number } | undefined;

  return {
    resource: { group: 'meterfeed.io', version: 'v1alpha1', plural: 'meteringpolicies' },
    kind: 'MeteringPolicy',
    promptFields: ['lastWindow'],

    async act({ name, generation, spec }, signal): Promise<Acted> {
      // The schema of this release refuses other names. One of another release may not.
      if (name !== POLICY_NAME) {
        const message = `metadata.name: not the policy in force: "${name}"; name it "${POLICY_NAME}"`;
        return { specStatus: { ...invalidSpec('InvalidName', message), inForce: false } };
      }
      const translation = translatePolicy(spec, environment.metering);
      if (translation.kind === 'invalid') return { specStatus: { ...translation, inForce } };
      const names = policySecretNames(spec);
      const reads = await secrets.read(names, signal);
      const again = names.length === 0 ? {} : { againMs: intervalMs };
      const translated = translateServer(spec.prometheus, reads);
      if (translated.kind === 'invalid') return { specStatus: { ...translated, inForce } };
      const written = translateFocusExport(spec.focus, reads);
      if (written.kind === 'invalid') return { specStatus: { ...written, inForce } };
      // A bad credential concerns only the queries. The other fields of the spec are in force.
      const put = (server: PrometheusServer | undefined): void => {
        const { prometheus, focus, ...others } = translation.settings;
        settings.setPolicy({
          ...others,
          prometheus: { ...prometheus, server },
          focus: focus && { ...focus, export: written.settings },
        });
        inForce = true;
      };
      if (translated.kind === 'server') {
        const { server } = translated;
        complete = server && { server, generation };
        put(server);
        return { specStatus: { kind: 'accepted' }, ...again };
      }
      const message = unreadSecret(reads);
      if (message === undefined) {
        put(complete?.server ?? translated.server);
        return { specStatus: { ...translated.why, inForce }, ...again };
      }
      put(complete?.server ?? { ...translated.server, credentialProblem: message });
      return complete?.generation === generation
        ? { specStatus: { kind: 'accepted' }, againMs: SECRET_RETRY_MS }
        : { specStatus: { kind: 'waiting', message } };
    },

    async remove(name) {
      if (name === POLICY_NAME) {
        settings.setPolicy(undefined);
        inForce = false;
        complete = undefined;
      }
      return { kind: 'removed' };
    },

    report(_, specStatus) {
      const { windowMs } = settings.current().metering;
      return {
        settled: options.tenants.known() && windows.lastWindowEnd() !== undefined,
        claims: policyClaims(specStatus, options, windowMs, clock.now()),
        fields: policyFields(options, windowMs),
      };
    },
  };
}

/**
 * Creates an empty MeteringPolicy `default` if it is missing, and retries until it exists. kubectl
 * cannot create an object in the same command as its CustomResourceDefinition.
 */
export async function ensureDefaultPolicy(
  options: {
    readonly connection: Pick<Connection, 'request'>;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly retryMs?: number;
  },
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
