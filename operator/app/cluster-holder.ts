import { Gauge, type Registry } from 'prom-client';
import { POLICY_NAME } from '../controllers/metering-policy.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { describeFailure, type RequestFailure } from '../kubernetes/outcome.ts';
import { identify, resourcePath } from '../kubernetes/resource.ts';
import { isRecord } from '../model/is-record.ts';
import { quote } from '../model/quote.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { readStoredPolicy } from './stored-policy.ts';

/** The installation that meters the cluster, as `status.holder` of the MeteringPolicy names it. */
interface Holder {
  /** Uid of the installation's Lease. Its replicas share it; no other installation has it. */
  readonly leaseUid: string;
  readonly namespace: string;
  readonly ledger: string;
  /** RFC 3339. Compare it with earlier values only, never with a clock. */
  readonly renewedAt: string;
}

interface ClusterHolderOptions {
  readonly connection: Pick<Connection, 'request'>;
  readonly namespace: string;
  /** Name of the Lease that this process holds in the namespace. */
  readonly lease: string;
  readonly ledgerId: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: Registry;
}

type ClaimOutcome =
  | { readonly kind: 'claimed' }
  | { readonly kind: 'taken'; readonly holder: Holder }
  /** There is no MeteringPolicy to name a holder, or no right to write it. */
  | { readonly kind: 'impossible'; readonly reason: string }
  | { readonly kind: 'failed'; readonly reason: string };

/** An installation counts as stopped after this time without a renewal, by this process's clock. */
const FRESH_MS = 120_000;
const RENEW_MS = 30_000;
const RETRY_MS = 5_000;
const TIMEOUT_MS = 5_000;
/** HTTP statuses after which a retry makes sense. */
const PASSING = [408, 409, 429, 502, 503, 504];

/**
 * Ensures that only one installation meters a cluster
 * (docs/reference/troubleshooting.md#two-installations). Each installation writes itself into
 * `status.holder` of the MeteringPolicy by server-side apply, with its own field manager. The API
 * server refuses the second one, which then waits.
 */
export class ClusterHolder {
  readonly #options: ClusterHolderOptions;
  readonly #refused: Gauge;
  #leaseUid: string | undefined;
  #isHolder = false;
  /** The other holder's last record, and since when it has not changed (monotonic). */
  #seen: { readonly text: string; readonly at: number } | undefined;
  #logged = '';

  constructor(options: ClusterHolderOptions) {
    this.#options = options;
    this.#refused = new Gauge({
      name: 'meterfeed_refused_by_other_installation',
      help: '1 while another installation meters this cluster and this one waits',
      registers: [options.registry],
    });
  }

  /**
   * Waits until no other installation meters the cluster. Returns at once if nothing can be
   * written: at the very first start there is no MeteringPolicy yet.
   */
  async claim(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const attempt = await this.#claimOnce(this.#isStale(), signal);
      this.#refused.set(Number(attempt.kind === 'taken'));
      if (attempt.kind === 'impossible') return;
      this.#log(attempt, signal);
      if (attempt.kind === 'claimed') return;
      if (attempt.kind === 'taken') this.#see(attempt.holder);
      // A failed read does not show that the other holder stopped renewing.
      else this.#seen = undefined;
      await this.#options.clock.sleep(RETRY_MS, signal).catch(() => undefined);
    }
  }

  /** Renews until the signal is aborted. Rejects when another installation has taken over. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const next = this.#isHolder ? RENEW_MS : RETRY_MS;
      await this.#options.clock.sleep(next, signal).catch(() => undefined);
      if (signal.aborted) return;
      const attempt = await this.#claimOnce(false, signal);
      if (attempt.kind === 'taken') throw new Error(refusal(attempt.holder, this.#options));
      this.#log(attempt, signal);
    }
  }

  async #claimOnce(force: boolean, signal: AbortSignal): Promise<ClaimOutcome> {
    const attempt = await this.#apply(force, signal);
    this.#isHolder = attempt.kind === 'claimed';
    return attempt;
  }

  async #apply(force: boolean, signal: AbortSignal): Promise<ClaimOutcome> {
    const { connection, namespace, lease, ledgerId, clock } = this.#options;
    const leases = { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', namespace };
    if (this.#leaseUid === undefined) {
      const found = await connection.request(resourcePath(leases, lease), {
        signal,
        timeoutMs: TIMEOUT_MS,
      });
      if (found.kind !== 'ok') return failed(found);
      this.#leaseUid = identify(found.body)?.uid;
      if (this.#leaseUid === undefined) return { kind: 'failed', reason: 'the Lease has no uid' };
    }
    const leaseUid = this.#leaseUid;
    const renewedAt = new Date(clock.now()).toISOString();
    const holder: Holder = { leaseUid, namespace, ledger: ledgerId, renewedAt };
    const policies = { group: 'meterfeed.io', version: 'v1alpha1', plural: 'meteringpolicies' };
    const applied = await connection.request(resourcePath(policies, POLICY_NAME, 'status'), {
      method: 'PATCH',
      query: { fieldManager: `meterfeed-${leaseUid}`, force },
      contentType: 'application/apply-patch+yaml',
      body: {
        apiVersion: 'meterfeed.io/v1alpha1',
        kind: 'MeteringPolicy',
        metadata: { name: POLICY_NAME },
        status: { holder },
      },
      signal,
      timeoutMs: TIMEOUT_MS,
    });
    if (applied.kind === 'ok') return { kind: 'claimed' };
    if (applied.kind !== 'status' || applied.code !== 409) return failed(applied);
    const stored = await readStoredPolicy(connection, signal);
    if (stored.kind !== 'ok') return failed(stored);
    const other = holderOf(stored.policy?.['status']);
    // Otherwise a concurrent write of something else caused the conflict.
    if (other === undefined || other.leaseUid === leaseUid) return failed(applied);
    return { kind: 'taken', holder: other };
  }

  #see({ leaseUid, renewedAt }: Holder): void {
    const text = `${leaseUid} ${renewedAt}`;
    if (this.#seen?.text === text) return;
    this.#seen = { text, at: this.#options.clock.monotonic() };
  }

  #isStale(): boolean {
    return this.#seen !== undefined && this.#options.clock.monotonic() - this.#seen.at >= FRESH_MS;
  }

  /** Logs each change once. */
  #log(attempt: ClaimOutcome, signal: AbortSignal): void {
    const { logger } = this.#options;
    const news =
      attempt.kind === 'claimed'
        ? ''
        : attempt.kind === 'taken'
          ? refusal(attempt.holder, this.#options)
          : `cannot write status.holder of the MeteringPolicy: ${attempt.reason}: another installation would not be noticed`;
    if (news === this.#logged || signal.aborted) return;
    this.#logged = news;
    if (news === '') logger.info('[controller] no other installation meters this cluster');
    else logger[attempt.kind === 'taken' ? 'error' : 'warn'](`[controller] ${news}`);
  }
}

function failed(failure: RequestFailure): ClaimOutcome {
  const reason = describeFailure(failure);
  const isPassing = failure.kind === 'network' || PASSING.includes(failure.code);
  return { kind: isPassing ? 'failed' : 'impossible', reason };
}

function holderOf(status: unknown): Holder | undefined {
  const holder = isRecord(status) ? status['holder'] : undefined;
  if (!isRecord(holder)) return undefined;
  const { leaseUid, namespace, ledger, renewedAt } = holder;
  if (typeof leaseUid !== 'string' || typeof renewedAt !== 'string') return undefined;
  if (typeof namespace !== 'string' || typeof ledger !== 'string') return undefined;
  return { leaseUid, namespace, ledger, renewedAt };
}

function refusal(
  { namespace, ledger, leaseUid }: Holder,
  own: Pick<ClusterHolderOptions, 'ledgerId'>,
): string {
  const copy = ledger === own.ledgerId ? ', from another copy of this ledger' : '';
  const who = `the installation in namespace ${quote(namespace)} (Lease ${leaseUid})${copy}`;
  return `another installation meters this cluster: ${who}: nothing is metered here; uninstall one of the two, or wait two minutes after the other one has stopped`;
}
