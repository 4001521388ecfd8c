import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { linkAbort, pause } from './abort.ts';
import type { Connection, RequestOptions, RequestOutcome } from './connection.ts';
import { leaseObject, type LeaseRecord, parseLease, type Succession } from './lease-record.ts';
import { DEFAULT_TIMINGS, type LeaseTimings } from './lease-timings.ts';
import { describeFailure } from './outcome.ts';
import { resourcePath } from './resource.ts';
import type { ApiResource } from './source.ts';

/** How a term, or the wait for one, ended. */
export type ElectionEnd =
  /** The signal was aborted, or the work ended by itself; the lease is free for the next. */
  | { readonly kind: 'released' }
  /** The lease could not be kept: somebody else may lead by now, so the process must end. */
  | { readonly kind: 'lost'; readonly reason: string };

export interface LeaderElectionOptions {
  readonly connection: Pick<Connection, 'request'>;
  readonly namespace: string;
  readonly name: string;
  /** Of this process alone: two pods of a StatefulSet may have one name for a while. */
  readonly identity: string;
  /** Where the lease of the process before it may be taken back; never by default. */
  readonly succession?: Succession;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly timings?: Partial<LeaseTimings>;
  /**
   * Why this process may not hold the lease now, asked before each attempt; undefined where it may. `holds`: whether it
   * does. Only for work whose writes another fence refuses once another process leads (`stream.epoch`): a lease that is
   * released for this reason, or could not be renewed, ends the work only when another holder is seen
   * (docs/reference/ledger-format.md#leader-and-standby).
   */
  readonly obstacle?: (holds: boolean) => string | undefined;
}

const REQUEST_TIMEOUT_MS = 5_000;
/** A released lease can be taken at once; the API wants a positive duration. */
const RELEASED_DURATION_MS = 1_000;

type Attempt =
  | { readonly kind: 'held'; readonly record: LeaseRecord }
  /** Somebody else holds it. */
  | { readonly kind: 'taken'; readonly holder: string }
  /** Nobody holds it, and this process may not. */
  | { readonly kind: 'barred'; readonly reason: string }
  | { readonly kind: 'failed'; readonly reason: string };

/** Somebody else wrote since the lease was read. */
type Conflict = { readonly kind: 'conflict' };

/**
 * Elects one of several processes over a `coordination.k8s.io` Lease. Clocks of different machines
 * are never compared: a lease has expired when this process has seen no renewal for its duration,
 * on this process's own monotonic clock.
 */
export class LeaderElection {
  readonly #options: LeaderElectionOptions;
  readonly #timings: LeaseTimings;
  readonly #resource: ApiResource;
  /** What was seen of the lease last, and when it was seen to change. */
  #observed: { readonly seen: string; readonly at: number } | undefined;
  #leading = false;
  /** When the renewal that succeeded last was sent; undefined while the lease is not held. */
  #renewedAt: number | undefined;
  #answeredAt: number | undefined;

  constructor(options: LeaderElectionOptions) {
    const { namespace } = options;
    this.#options = options;
    this.#timings = { ...DEFAULT_TIMINGS, ...options.timings };
    this.#resource = { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', namespace };
  }

  get leading(): boolean {
    return this.#leading;
  }

  /** When the API server last answered a request for the lease, monotonic milliseconds; undefined before the first answer. */
  get answeredAt(): number | undefined {
    return this.#answeredAt;
  }

  /**
   * Whether this process holds the lease and renewed it less than the renew deadline ago. It reads the monotonic clock
   * with each call, so that it is right also in a process that was frozen until now.
   */
  isTrusted(): boolean {
    if (!this.#leading || this.#renewedAt === undefined) return false;
    return this.#options.clock.monotonic() - this.#renewedAt < this.#timings.renewDeadline;
  }

  /**
   * Waits until this process leads, then does the work until the signal is aborted, the work ends
   * or the lease is lost. The work's signal is aborted in each case, and its end is awaited; what it
   * throws comes out of here.
   */
  async run(
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<void>,
  ): Promise<ElectionEnd> {
    const record = await this.#acquire(signal);
    if (record === undefined) return { kind: 'released' };
    return await this.#lead(record, signal, work);
  }

  async #acquire(signal: AbortSignal): Promise<LeaseRecord | undefined> {
    const { clock, random, logger } = this.#options;
    let stated = '';
    while (!signal.aborted) {
      const sentAt = clock.monotonic();
      const attempt = await this.#tryToHold(signal);
      if (attempt.kind === 'held') {
        this.#renewedAt = sentAt;
        return attempt.record;
      }
      // Whoever cannot look has not seen that nobody renewed.
      if (attempt.kind === 'failed') this.#observed = undefined;
      const taken = attempt.kind === 'taken';
      const news = taken ? `"${attempt.holder}" leads; waiting` : attempt.reason;
      if (news !== stated && !signal.aborted) {
        logger[taken ? 'info' : 'warn'](`[controller] leader election: ${news}`);
      }
      stated = news;
      await pause(clock, this.#timings.retry * (1 + 0.2 * random()), signal);
    }
    return undefined;
  }

  async #lead(
    first: LeaseRecord,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<void>,
  ): Promise<ElectionEnd> {
    const { logger } = this.#options;
    logger.info('[controller] leader election: this process leads');
    this.#leading = true;
    const link = linkAbort(signal);
    const working = work(link.signal);
    const keeping = this.#keep(first, link.signal);
    // Whichever ends first, the work or the lease, ends the other.
    void keeping.then(link.abort);
    await Promise.allSettled([working]);
    link.abort();
    this.#leading = false;
    const end = await keeping;
    this.#renewedAt = undefined;
    link.release();
    if (end.lost !== undefined) {
      logger.error(`[controller] leader election: lost the lease: ${end.lost}`);
      return { kind: 'lost', reason: end.lost };
    }
    if (end.record !== undefined) await this.#release(end.record);
    await working;
    return { kind: 'released' };
  }

  /** Renews until the signal is aborted, or until it could not for too long. The record is absent while the lease is released. */
  async #keep(
    first: LeaseRecord,
    signal: AbortSignal,
  ): Promise<{ readonly record: LeaseRecord | undefined; readonly lost?: string }> {
    const { clock, logger, obstacle } = this.#options;
    const { retry, renew, renewDeadline } = this.#timings;
    let record: LeaseRecord | undefined = first;
    let stated = '';
    const sinceRenewal = (): number => clock.monotonic() - (this.#renewedAt ?? -Infinity);
    const left = (): number => renewDeadline - sinceRenewal();
    // Work that is fenced elsewhere goes on while nobody else leads: there is no deadline for it.
    const wait = (): number => (obstacle === undefined ? Math.min(retry, left()) : retry);
    while (await pause(clock, wait(), signal)) {
      record = await this.#giveUpWhileBarred(record);
      const sentAt = clock.monotonic();
      if (record !== undefined && sinceRenewal() < renew && this.#saysHead(record)) continue;
      const limit = obstacle === undefined ? left() : REQUEST_TIMEOUT_MS;
      const held = record;
      const attempt = await this.#within(limit, signal, (inner) => this.#tryToHold(inner, held));
      if (attempt.kind === 'held') {
        if (stated !== '') logger.info('[controller] leader election: renewed again');
        stated = '';
        record = attempt.record;
        // From before the request: that is the latest the others can have begun to count.
        this.#renewedAt = sentAt;
        continue;
      }
      if (signal.aborted) break;
      if (attempt.kind === 'taken') return { record, lost: `"${attempt.holder}" has taken it` };
      if (attempt.reason !== stated || obstacle === undefined) {
        logger.warn(`[controller] leader election: cannot renew: ${attempt.reason}`);
      }
      stated = attempt.reason;
      if (obstacle === undefined && left() <= 0) {
        return { record, lost: `not renewed for ${renewDeadline} ms: ${attempt.reason}` };
      }
    }
    return { record };
  }

  /** Releases a lease that this process may not hold any more. */
  async #giveUpWhileBarred(record: LeaseRecord | undefined): Promise<LeaseRecord | undefined> {
    const reason = record && this.#options.obstacle?.(true);
    if (record === undefined || reason === undefined) return record;
    this.#options.logger.warn(`[controller] leader election: the lease is released: ${reason}`);
    this.#renewedAt = undefined;
    await this.#release(record);
    return undefined;
  }

  /** A copy of the ledger as it was before tells by the lease that it is old. */
  #saysHead({ ledgerHead }: LeaseRecord): boolean {
    const { succession } = this.#options;
    return succession === undefined || succession.head() === ledgerHead;
  }

  /** Cuts an attempt short after `ms`. */
  async #within(
    ms: number,
    signal: AbortSignal,
    attempt: (signal: AbortSignal) => Promise<Attempt>,
  ): Promise<Attempt> {
    const link = linkAbort(signal);
    const timer = linkAbort(link.signal);
    void pause(this.#options.clock, ms, timer.signal).then((waited) => {
      if (waited) link.abort();
    });
    try {
      return await attempt(link.signal);
    } finally {
      timer.abort();
      timer.release();
      link.release();
    }
  }

  /** One look and, where the lease is free or ours, one write that nobody else can overtake. */
  async #tryToHold(signal: AbortSignal, held?: LeaseRecord): Promise<Attempt> {
    if (held !== undefined) {
      const renewed = await this.#claim(held, signal);
      // Somebody wrote in between; a look tells who holds it.
      if (renewed.kind !== 'conflict') return renewed;
    }
    const { name, obstacle } = this.#options;
    const barred = held === undefined ? obstacle?.(false) : undefined;
    const path = resourcePath(this.#resource, name);
    const current = await this.#request(path, { signal, timeoutMs: REQUEST_TIMEOUT_MS });
    if (current.kind === 'status' && current.code === 404) {
      if (barred !== undefined) return { kind: 'barred', reason: barred };
      return unlessConflict(await this.#claim(undefined, signal));
    }
    if (current.kind !== 'ok') return { kind: 'failed', reason: describeFailure(current) };
    const record = parseLease(current.body);
    if (record === undefined) return { kind: 'failed', reason: 'the answer is not a Lease' };
    this.#observe(record);
    // A leader whose lease is held by another one has lost it, whoever that is.
    const isFree = this.#isFree(record) || (held === undefined && this.#isFormer(record));
    if (!isFree) return { kind: 'taken', holder: record.holder };
    if (barred !== undefined) return { kind: 'barred', reason: barred };
    return unlessConflict(await this.#claim(record, signal));
  }

  #claim(held: LeaseRecord | undefined, signal: AbortSignal): Promise<Attempt | Conflict> {
    return this.#write(held, this.#options.identity, this.#timings.duration, signal);
  }

  async #write(
    held: LeaseRecord | undefined,
    holder: string,
    durationMs: number,
    signal?: AbortSignal,
  ): Promise<Attempt | Conflict> {
    const { namespace, name, clock, succession } = this.#options;
    const ledgerHead = succession?.head();
    const claim = { namespace, name, holder, durationMs, now: clock.now(), ledgerHead };
    const path = resourcePath(this.#resource, held === undefined ? undefined : name);
    const outcome = await this.#request(path, {
      method: held === undefined ? 'POST' : 'PUT',
      body: leaseObject(claim, held),
      timeoutMs: REQUEST_TIMEOUT_MS,
      signal,
    });
    if (outcome.kind === 'status' && outcome.code === 409) return { kind: 'conflict' };
    if (outcome.kind !== 'ok') {
      const isHomeless = held === undefined && outcome.kind === 'status' && outcome.code === 404;
      const fix = isHomeless ? ': create the namespace, or name another one in POD_NAMESPACE' : '';
      return { kind: 'failed', reason: describeFailure(outcome) + fix };
    }
    const record = parseLease(outcome.body);
    if (record === undefined) return { kind: 'failed', reason: 'the answer is not a Lease' };
    return { kind: 'held', record };
  }

  async #request(path: string, options: RequestOptions): Promise<RequestOutcome> {
    const outcome = await this.#options.connection.request(path, options);
    if (outcome.kind !== 'network') this.#answeredAt = this.#options.clock.monotonic();
    return outcome;
  }

  #observe(record: LeaseRecord): void {
    const seen = `${record.holder} ${record.renewTime} ${record.transitions}`;
    if (this.#observed?.seen === seen) return;
    this.#observed = { seen, at: this.#options.clock.monotonic() };
  }

  #isFree(record: LeaseRecord): boolean {
    if (record.holder === '' || record.holder === this.#options.identity) return true;
    if (this.#observed === undefined) return false;
    const unchangedMs = this.#options.clock.monotonic() - this.#observed.at;
    return unchangedMs >= (record.durationMs || this.#timings.duration);
  }

  /** It was held by an earlier process on this very ledger, which has lost nothing since. */
  #isFormer({ holder, ledgerHead }: LeaseRecord): boolean {
    const { succession } = this.#options;
    if (succession === undefined || !holder.startsWith(succession.prefix)) return false;
    return ledgerHead !== undefined && succession.head() >= ledgerHead;
  }

  /** So that a successor need not wait for the expiry. */
  async #release(record: LeaseRecord): Promise<void> {
    const outcome = await this.#write(record, '', RELEASED_DURATION_MS);
    if (outcome.kind === 'held') return;
    const reason = outcome.kind === 'failed' ? outcome.reason : 'it has changed hands';
    this.#options.logger.warn(`[controller] leader election: cannot release the lease: ${reason}`);
  }
}

/** Somebody else was faster: that is as good as taken, and the next look tells by whom. */
function unlessConflict(attempt: Attempt | Conflict): Attempt {
  return attempt.kind === 'conflict'
    ? { kind: 'failed', reason: 'another process was faster' }
    : attempt;
}
