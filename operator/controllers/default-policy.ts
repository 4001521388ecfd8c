import type { Connection } from '../kubernetes/connection.ts';
import { describeFailure } from '../kubernetes/outcome.ts';
import { resourcePath } from '../kubernetes/resource.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { POLICY_NAME } from './metering-policy.ts';

export interface DefaultPolicyOptions {
  readonly connection: Pick<Connection, 'request'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly retryMs?: number;
}

const RETRY_MS = 10_000;

/**
 * Creates the MeteringPolicy `default`, empty, unless there is one. The operator does it because kubectl
 * cannot create an object in the same command as its CustomResourceDefinition. Tries until it is there.
 */
export async function ensureDefaultPolicy(
  options: DefaultPolicyOptions,
  signal: AbortSignal,
): Promise<void> {
  const { connection, clock, logger, retryMs = RETRY_MS } = options;
  let told = '';
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
    if (failure !== told && !signal.aborted) {
      logger.warn(`[controller] cannot create MeteringPolicy "${POLICY_NAME}": ${failure}`);
    }
    told = failure;
    await clock.sleep(retryMs, signal).catch(() => undefined);
  }
}
