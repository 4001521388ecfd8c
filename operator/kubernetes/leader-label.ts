import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { pause } from '../telemetry/abort.ts';
import type { Connection } from './connection.ts';
import { describeFailure } from './outcome.ts';
import { resourcePath } from './resource.ts';

/** The label by which a Service selects the leader (docs/how-to/postgresql.md#two-pods). */
export const ROLE_LABEL = 'meterfeed.io/role';

const TIMEOUT_MS = 2_000;
const RETRY_MS = 2_000;

/** Sets and removes the leader label on this process's pod, to which a Service routes. */
export class LeaderLabel {
  readonly #options;
  readonly #path: string;
  #logged = '';

  constructor(options: {
    readonly connection: Pick<Connection, 'request'>;
    /** Namespace of this process's pod. */
    readonly namespace: string;
    readonly pod: string;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    const { namespace, pod } = options;
    this.#options = options;
    this.#path = resourcePath({ group: '', version: 'v1', plural: 'pods', namespace }, pod);
  }

  /** Sets the label; retries until it succeeds or the signal is aborted. */
  set(signal: AbortSignal): Promise<void> {
    return this.#insist('leader', signal);
  }

  /** Removes the label; retries until it succeeds or the signal is aborted. */
  remove(signal: AbortSignal): Promise<void> {
    return this.#insist(null, signal);
  }

  async #insist(value: 'leader' | null, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !(await this.#patch(value, signal))) {
      await pause(this.#options.clock, RETRY_MS, signal);
    }
  }

  async #patch(value: 'leader' | null, signal: AbortSignal): Promise<boolean> {
    const { connection, logger, pod } = this.#options;
    const outcome = await connection.request(this.#path, {
      method: 'PATCH',
      contentType: 'application/merge-patch+json',
      body: { metadata: { labels: { [ROLE_LABEL]: value } } },
      timeoutMs: TIMEOUT_MS,
      signal,
    });
    const text = outcome.kind === 'ok' ? '' : describeFailure(outcome);
    if (text !== '' && text !== this.#logged) {
      const verb = value === null ? 'removed from' : 'set on';
      const label = `the label ${ROLE_LABEL} cannot be ${verb} pod "${pod}"`;
      logger.warn(`[controller] ${label}: ${text}`);
    }
    this.#logged = text;
    return outcome.kind === 'ok';
  }
}
