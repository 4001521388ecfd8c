import { randomBytes } from 'node:crypto';
import type { Registry } from 'prom-client';
import type { LedgerDatabase, Settings } from '../settings/settings.ts';
import type { ReadinessCheck } from '../http/views.ts';
import type { LeaderLabel } from '../kubernetes/leader-label.ts';
import { LeaderElection, type LeaderElectionOptions } from '../kubernetes/lease.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Rollups } from '../ledger/rollups.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { DatabasePoll, READY_MS } from './database-poll.ts';
import type { HubDatabases } from './hub/hub-streams.ts';
import { openLedger } from './open-ledger.ts';
import { inTime, type ComponentsEnd } from './components.ts';

/** Name of the Lease in the operator's own namespace; config/rbac names it too. */
export const LEASE = 'meterfeed';

/** How a term as the leader ended. */
export type TermEnd =
  | ComponentsEnd
  /** Another process leads, or may lead: this one stands by again. */
  | { readonly kind: 'stepped down'; readonly reason: string };

/** State of a leader: the ledger of its cluster, or the databases of a hub. */
export type Leading = {
  /** Returns whether it may change anything outside at this moment. */
  readonly mayAct: () => boolean;
} & (
  | {
      readonly kind: 'operator';
      readonly ledger: Ledger;
      /** Sums of the ledger's events. */
      readonly rollups: Rollups;
    }
  | { readonly kind: 'hub'; readonly databases: HubDatabases; readonly epoch: number }
);

/** Works as the leader until the signal is aborted. */
export type LeadersWork = (leading: Leading, signal: AbortSignal) => Promise<ComponentsEnd>;

/** How a process becomes leader, one term after another. */
export interface Terms {
  /** Readiness checks of a standby. */
  readiness(): readonly ReadinessCheck[];
  /** Returns whether this process may change anything outside at this moment. */
  mayAct(): boolean;
  /** Waits until this process leads, then runs the work and awaits its end. */
  run(work: LeadersWork, signal: AbortSignal): Promise<TermEnd>;
}

/** Dependencies of a standby. */
export interface StandbyContext {
  readonly environment: Settings;
  /** The pod's name; identifies this process. */
  readonly instance: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface TermsOptions extends StandbyContext {
  readonly registry: Registry;
  readonly connection: LeaderElectionOptions['connection'];
  readonly namespace: string;
  readonly random: () => number;
}

/**
 * Lease timings, longer than the usual 15 s. No standby waits, and a restarted process takes its
 * own Lease back at once. A short outage of the API server must not end the only meter.
 */
const ALONE = { duration: 60_000, renewDeadline: 45_000, renew: 9_000, retry: 3_000 };

/**
 * Terms with a ledger in DATA_DIR. The volume's lock fences other processes on it; the Lease fences
 * copies of the volume.
 */
export class VolumeTerms implements Terms {
  readonly #options: TermsOptions;
  #election: LeaderElection | undefined;

  constructor(options: TermsOptions) {
    this.#options = options;
  }

  readiness(): readonly ReadinessCheck[] {
    const detail = 'waiting for the lease: another process may hold it';
    return [{ name: 'leader', ok: false, detail }];
  }

  mayAct(): boolean {
    return this.#election?.isTrusted() ?? false;
  }

  async run(work: LeadersWork, signal: AbortSignal): Promise<TermEnd> {
    const { clock, environment } = this.#options;
    const opened = await openLedger(environment, undefined, this.#options);
    if (opened.kind === 'failed') return unopened(opened.message);
    const { ledger, rollups } = opened;
    // A copy of the volume has the same pod name and ledger id, but its own lock.
    const lineage = `${this.#options.instance}_${ledger.stats().ledgerId}_`;
    const election = new LeaderElection({
      ...this.#options,
      name: LEASE,
      identity: lineage + randomBytes(4).toString('hex'),
      timings: ALONE,
      // A restart on the same volume takes back the Lease of its predecessor.
      succession: { prefix: lineage, head: () => ledger.head() },
    });
    this.#election = election;
    const mayAct = (): boolean => election.isTrusted();
    const lead = async (leading: AbortSignal): Promise<ComponentsEnd> => {
      const end = await work({ kind: 'operator', ledger, rollups, mayAct }, leading);
      await ledger.close();
      return end;
    };
    const end = await elected(election, signal, (leading) =>
      inTime(lead, leading, { signal, clock }),
    );
    await ledger.close();
    return end;
  }
}

/**
 * Terms with a ledger in a database. One process leads; a standby only takes part in the election
 * and polls the database (docs/reference/ledger-format.md#leader-and-standby).
 */
export class DatabaseTerms implements Terms {
  readonly #options: TermsOptions;
  readonly #database: LedgerDatabase;
  readonly #label: LeaderLabel | undefined;
  readonly #poll: DatabasePoll;
  readonly #election: LeaderElection;
  #hasTimelines = false;

  constructor(options: TermsOptions, database: LedgerDatabase, label: LeaderLabel | undefined) {
    this.#options = options;
    this.#database = database;
    this.#label = label;
    const source = options.environment.identity.clusterName;
    this.#poll = new DatabasePoll({ ...options, database, source });
    this.#election = new LeaderElection({
      ...options,
      name: LEASE,
      identity: `${options.instance}_${randomBytes(4).toString('hex')}`,
      obstacle: (holds) => this.#poll.obstacle({ holds, hasTimelines: this.#hasTimelines }),
    });
  }

  readiness(): readonly ReadinessCheck[] {
    const age = this.#options.clock.monotonic() - (this.#election.answeredAt ?? -Infinity);
    const isReached = age <= READY_MS;
    return [
      {
        name: 'API server',
        ok: isReached,
        ...(!isReached && { detail: 'the API server has not answered for 60 seconds' }),
      },
      ...this.#poll.readiness(),
    ];
  }

  mayAct(): boolean {
    return this.#election.isTrusted();
  }

  async run(work: LeadersWork, signal: AbortSignal): Promise<TermEnd> {
    const ended = new AbortController();
    await this.#poll.poll();
    const polling = this.#poll.run(ended.signal);
    const waiting = new AbortController();
    const removing = this.#label?.remove(AbortSignal.any([signal, waiting.signal]));
    const end = await elected(this.#election, signal, async (leading) => {
      waiting.abort();
      await removing;
      return this.#lead(work, leading, signal);
    });
    this.#hasTimelines = false;
    waiting.abort();
    ended.abort();
    await Promise.all([polling, removing]);
    return end;
  }

  async #lead(work: LeadersWork, leading: AbortSignal, signal: AbortSignal): Promise<TermEnd> {
    const opened = await openLedger(this.#options.environment, this.#database, this.#options);
    if (opened.kind === 'failed') {
      const isPassing = opened.cause === 'retryable' || opened.cause === 'full';
      return isPassing
        ? { kind: 'stepped down', reason: opened.message }
        : unopened(opened.message);
    }
    const { ledger, rollups, epoch = 0 } = opened;
    this.#hasTimelines = true;
    const passed = new AbortController();
    const leave = this.#poll.subscribe(() => {
      if (this.#poll.isPassed(epoch)) passed.abort();
    });
    const lead = async (leads: AbortSignal): Promise<ComponentsEnd> => {
      const mayAct = (): boolean => this.mayAct();
      const end = await work({ kind: 'operator', ledger, rollups, mayAct }, leads);
      await ledger.close();
      return end;
    };
    const until = AbortSignal.any([leading, passed.signal]);
    const end = await inTime(lead, until, { signal, clock: this.#options.clock });
    leave();
    // A component that the database refused ends first. Then the other leader is the reason, not
    // the component.
    if (end.kind === 'failed') await this.#poll.poll();
    const reason = 'another process leads by the epoch of the database';
    return this.#poll.isPassed(epoch) ? { kind: 'stepped down', reason } : end;
  }
}

function unopened(message: string): TermEnd {
  return { kind: 'failed', reason: `the ledger cannot be opened: ${message}` };
}

/** Runs the work while elected. A lost Lease is returned as a step-down. */
async function elected(
  election: LeaderElection,
  signal: AbortSignal,
  work: (leading: AbortSignal) => Promise<TermEnd>,
): Promise<TermEnd> {
  const ends: TermEnd[] = [];
  const outcome = await election.run(signal, async (leading) => {
    ends.push(await work(leading));
  });
  const [end = { kind: 'stopped' }] = ends;
  if (outcome.kind === 'released' || end.kind !== 'stopped') return end;
  return { kind: 'stepped down', reason: outcome.reason };
}
