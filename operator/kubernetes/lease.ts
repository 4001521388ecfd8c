import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { linkAbort, pause } from '../telemetry/abort.ts';
import type { Connection, RequestOptions, RequestOutcome } from './connection.ts';
import { leaseObject, type LeaseRecord, parseLease, type Succession } from './lease-record.ts';
import { DEFAULT_TIMINGS, type LeaseTimings } from './lease-timings.ts';
import { describeFailure } from './outcome.ts';
import { resourcePath } from './resource.ts';
import type { ApiResource } from './source.ts';

/** How leading, or waiting to lead, ended. */
export type ElectionEnd =
  /** The signal was aborted or the work ended; the next process can acquire the lease at once. */
  | { readonly kind: 'released' }
  /** The lease is lost: another process may lead by now, so this process must end. */
  | { readonly kind: 'lost'; readonly reason: string };

export interface LeaderElectionOptions {
  readonly connection: Pick<Connection, 'request'>;
  readonly namespace: string;
  readonly name: string;
  /** Unique for each process: two pods of a StatefulSet may share a name for a while. */
  readonly identity: string;
  /** Allows taking over the lease of an earlier process; absent by default. */
  readonly succession?: Succession;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly timings?: Partial<LeaseTimings>;
  /**
   * Called before each attempt. Returns why this process may not hold the lease now, or undefined
   * when it may. `isHolder`: whether it holds the lease.
   *
   * Use it only for work whose writes another fence refuses once another process leads
   * (`stream.epoch`). A released or expired lease then ends the work only when another holder
   * appears (docs/reference/ledger-format.md#leader-and-standby).
   */
  readonly obstacle?: (isHolder: boolean) => string | undefined;
}

const REQUEST_TIMEOUT_MS = 5_000;
/** The API requires a positive duration, also for a released lease. */
const RELEASED_DURATION_MS = 1_000;

type AcquireOutcome =
  | { readonly kind: 'held'; readonly record: LeaseRecord }
  | { readonly kind: 'taken'; readonly holder: string }
  /** The lease is free, and this process may not acquire it. */
  | { readonly kind: 'barred'; readonly reason: string }
  | { readonly kind: 'failed'; readonly reason: string };

/** Another process wrote the lease since it was read. */
type Conflict = { readonly kind: 'conflict' };

/**
 * Elects one of several processes with a `coordination.k8s.io` Lease. Never compares the clocks of
 * two machines. A lease has expired when this process saw no renewal for the lease's duration,
 * measured on its own monotonic clock.
 */
export class LeaderElection {
  readonly #options: LeaderElectionOptions;
  readonly #timings: LeaseTimings;
  readonly #resource: ApiResource;
  /** The lease as last seen, and when this process saw it change. */
  #observed: { readonly seen: string; readonly at: number } | undefined;
  #leading = false;
  /** When the last successful renewal was sent; undefined while the lease is not held. */
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

  /** Monotonic time of the API server's last answer about the lease; undefined before the first. */
  get answeredAt(): number | undefined {
    return this.#answeredAt;
  }

  /**
   * Whether this process holds the lease and renewed it within the renew deadline. Each call reads
   * the monotonic clock, so the answer is correct also after the process was frozen.
   */
  isTrusted(): boolean {
    if (!this.#leading || this.#renewedAt === undefined) return false;
    return this.#options.clock.monotonic() - this.#renewedAt < this.#timings.renewDeadline;
  }

  /**
   * Waits until this process leads, then does the work until the signal is aborted, the work ends
   * or the lease is lost. In each case it aborts the work's signal and awaits the work's end.
   * Rejects with the work's error.
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
    let logged = '';
    while (!signal.aborted) {
      const sentAt = clock.monotonic();
      const attempt = await this.#tryToAcquire(signal);
      if (attempt.kind === 'held') {
        this.#renewedAt = sentAt;
        return attempt.record;
      }
      // Without an answer this process cannot know that nobody renewed.
      if (attempt.kind === 'failed') this.#observed = undefined;
      const taken = attempt.kind === 'taken';
      const news = taken ? `"${attempt.holder}" leads; waiting` : attempt.reason;
      if (news !== logged && !signal.aborted) {
        logger[taken ? 'info' : 'warn'](`[controller] leader election: ${news}`);
      }
      logged = news;
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
    const renewing = this.#renewUntilLost(first, link.signal);
    // The end of the work stops the renewals, and a lost lease stops the work.
    void renewing.then(link.abort);
    await Promise.allSettled([working]);
    link.abort();
    this.#leading = false;
    const end = await renewing;
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

  /** Renews until the signal is aborted or the lease is lost. Released: `record` is undefined. */
  async #renewUntilLost(
    first: LeaseRecord,
    signal: AbortSignal,
  ): Promise<{ readonly record: LeaseRecord | undefined; readonly lost?: string }> {
    const { clock, logger, obstacle } = this.#options;
    const { retry, renew, renewDeadline } = this.#timings;
    let record: LeaseRecord | undefined = first;
    let logged = '';
    const sinceRenewal = (): number => clock.monotonic() - (this.#renewedAt ?? -Infinity);
    const left = (): number => renewDeadline - sinceRenewal();
    // Work with another fence goes on while no other process leads, so it has no deadline.
    const wait = (): number => (obstacle === undefined ? Math.min(retry, left()) : retry);
    while (await pause(clock, wait(), signal)) {
      record = await this.#releaseWhileBarred(record);
      const sentAt = clock.monotonic();
      if (record !== undefined && sinceRenewal() < renew && this.#recordsHead(record)) continue;
      const limit = obstacle === undefined ? left() : REQUEST_TIMEOUT_MS;
      const known = record;
      const attempt = await this.#within(limit, signal, (inner) =>
        this.#tryToAcquire(inner, known),
      );
      if (attempt.kind === 'held') {
        if (logged !== '') logger.info('[controller] leader election: renewed again');
        logged = '';
        record = attempt.record;
        // The time before the request: other processes cannot have begun to count later.
        this.#renewedAt = sentAt;
        continue;
      }
      if (signal.aborted) break;
      if (attempt.kind === 'taken') return { record, lost: `"${attempt.holder}" has taken it` };
      if (attempt.reason !== logged || obstacle === undefined) {
        logger.warn(`[controller] leader election: cannot renew: ${attempt.reason}`);
      }
      logged = attempt.reason;
      if (obstacle === undefined && left() <= 0) {
        return { record, lost: `not renewed for ${renewDeadline} ms: ${attempt.reason}` };
      }
    }
    return { record };
  }

  /** Releases the lease when an obstacle forbids holding it; returns the record that remains. */
  async #releaseWhileBarred(record: LeaseRecord | undefined): Promise<LeaseRecord | undefined> {
    const reason = record && this.#options.obstacle?.(true);
    if (record === undefined || reason === undefined) return record;
    this.#options.logger.warn(`[controller] leader election: the lease is released: ${reason}`);
    this.#renewedAt = undefined;
    await this.#release(record);
    return undefined;
  }

  /** True when the lease records the ledger's head; an old copy of the ledger has another. */
  #recordsHead({ ledgerHead }: LeaseRecord): boolean {
    const { succession } = this.#options;
    return succession === undefined || succession.head() === ledgerHead;
  }

  /** Cuts an attempt short after `ms`. */
  async #within(
    ms: number,
    signal: AbortSignal,
    attempt: (signal: AbortSignal) => Promise<AcquireOutcome>,
  ): Promise<AcquireOutcome> {
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

  /** Acquires or renews: reads the lease and, if free or ours, writes it guarded by its version. */
  async #tryToAcquire(signal: AbortSignal, known?: LeaseRecord): Promise<AcquireOutcome> {
    if (known !== undefined) {
      const renewed = await this.#claim(known, signal);
      // Another process wrote the lease meanwhile; the next read shows its holder.
      if (renewed.kind !== 'conflict') return renewed;
    }
    const { name, obstacle } = this.#options;
    const barred = known === undefined ? obstacle?.(false) : undefined;
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
    // Only a process that is not leading may take over from an earlier one: a leader has lost its
    // lease to any other holder.
    const isFree = this.#isFree(record) || (known === undefined && this.#isFormer(record));
    if (!isFree) return { kind: 'taken', holder: record.holder };
    if (barred !== undefined) return { kind: 'barred', reason: barred };
    return unlessConflict(await this.#claim(record, signal));
  }

  #claim(known: LeaseRecord | undefined, signal: AbortSignal): Promise<AcquireOutcome | Conflict> {
    return this.#write(known, this.#options.identity, this.#timings.duration, signal);
  }

  async #write(
    known: LeaseRecord | undefined,
    holder: string,
    durationMs: number,
    signal?: AbortSignal,
  ): Promise<AcquireOutcome | Conflict> {
    const { namespace, name, clock, succession } = this.#options;
    const ledgerHead = succession?.head();
    const claim = { namespace, name, holder, durationMs, now: clock.now(), ledgerHead };
    const path = resourcePath(this.#resource, known === undefined ? undefined : name);
    const outcome = await this.#request(path, {
      method: known === undefined ? 'POST' : 'PUT',
      body: leaseObject(claim, known),
      timeoutMs: REQUEST_TIMEOUT_MS,
      signal,
    });
    if (outcome.kind === 'status' && outcome.code === 409) return { kind: 'conflict' };
    if (outcome.kind !== 'ok') {
      const isNamespaceMissing =
        known === undefined && outcome.kind === 'status' && outcome.code === 404;
      const fix = isNamespaceMissing
        ? ': create the namespace, or name another one in POD_NAMESPACE'
        : '';
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

  /** True if the holder was an earlier process on this ledger, which has lost nothing since. */
  #isFormer({ holder, ledgerHead }: LeaseRecord): boolean {
    const { succession } = this.#options;
    if (succession === undefined || !holder.startsWith(succession.prefix)) return false;
    return ledgerHead !== undefined && succession.head() >= ledgerHead;
  }

  /** Releases the lease, so that a successor need not wait for its expiry. */
  async #release(record: LeaseRecord): Promise<void> {
    const outcome = await this.#write(record, '', RELEASED_DURATION_MS);
    if (outcome.kind === 'held') return;
    const reason = outcome.kind === 'failed' ? outcome.reason : 'it has changed hands';
    this.#options.logger.warn(`[controller] leader election: cannot release the lease: ${reason}`);
  }
}

/** Turns a conflict into a failure; the next read shows the holder. */
function unlessConflict(attempt: AcquireOutcome | Conflict): AcquireOutcome {
  return attempt.kind === 'conflict'
    ? { kind: 'failed', reason: 'another process was faster' }
    : attempt;
}
