import type { LedgerDatabase } from '../../config/settings.ts';
import { errorText } from '../../model/error-text.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import {
  type HeldLease,
  isReplica,
  LEASE_TIMES,
  type LeaseRow,
  type Leases,
  LeaseSightings,
  type LeaseTeam,
  planLeases,
  replicaName,
} from '../leases.ts';
import {
  claimLeases,
  dropLease,
  forgetLeases,
  leaseRowOf,
  makeLeases,
  releaseLease,
  renewLeases,
  selectLeases,
  writeLeases,
} from './lease-statements.ts';
import { openSession, type Row, type Session, type Statement } from './session.ts';

export interface PostgresLeasesOptions {
  readonly database: LedgerDatabase;
  readonly stream: number;
  /** Of this process alone. */
  readonly owner: string;
  readonly team: LeaseTeam;
  /** Where the other processes reach this one. */
  readonly address: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Much less than the trust in a lease, so that there is time for another attempt. */
const ANSWER_MS = 3_000;
const WATCH_MS = 250;

/** Leases in the database, on a connection of their own: nothing that is slow elsewhere keeps one from being renewed. */
export function createPostgresLeases(options: PostgresLeasesOptions): Leases {
  return new PostgresLeases(options);
}

class PostgresLeases implements Leases {
  readonly #options: PostgresLeasesOptions;
  /** The name of this process's own row. */
  readonly #self: string;
  readonly #sightings = new LeaseSightings();
  readonly #held = new Map<string, Holding>();
  readonly #listeners = new Set<() => void>();
  #wanted: readonly string[] = [];
  #session: Session | undefined;
  /** Whoever needs a connection meanwhile waits for the same one. */
  #opening: Promise<Session> | undefined;
  #renewedAt = -Infinity;
  #said = '';

  constructor(options: PostgresLeasesOptions) {
    this.#options = options;
    this.#self = replicaName(options.owner, options.team);
  }

  want(names: readonly string[]): void {
    this.#wanted = names.toSorted();
  }

  held(): ReadonlyMap<string, HeldLease> {
    return this.#held;
  }

  addressOf(name: string): string | undefined {
    const row = this.#sightings.row(name);
    if (row === undefined || row.owner === '') return undefined;
    const now = this.#options.clock.monotonic();
    return this.#sightings.isSilent(name, now, LEASE_TIMES.expiry) ? undefined : row.address;
  }

  others(): readonly string[] {
    const { team } = this.#options;
    const replicas = this.#sightings.rows().filter((row) => isReplica(row, team));
    const others = replicas.filter(({ name }) => name !== this.#self);
    return others.flatMap(({ name }) => this.addressOf(name) ?? []);
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    const watching = this.#watch(signal);
    while (!signal.aborted) {
      await this.#look().then(
        () => {
          if (this.#said !== '') logger.info('[leases] the database answers again');
          this.#said = '';
        },
        (error: unknown) => this.#failed(error),
      );
      await clock.sleep(LEASE_TIMES.look, signal).catch(() => undefined);
    }
    await watching;
    await Promise.all([...this.#held.values()].map((holding) => holding.release()));
    const { stream, owner } = this.#options;
    await this.#write([dropLease(stream, this.#self, owner)]).catch(() => undefined);
    await this.#session?.end();
  }

  #failed(error: unknown): void {
    this.#session?.destroy();
    const text = errorText(error);
    if (text !== this.#said) this.#options.logger.warn(`[leases] ${text}`);
    this.#said = text;
  }

  /** Takes trust away in time, also while the database does not answer. */
  async #watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#options.clock.sleep(WATCH_MS, signal).catch(() => undefined);
      for (const holding of this.#held.values()) if (!holding.isTrusted()) this.#lose(holding);
    }
  }

  async #look(): Promise<void> {
    const { stream, owner, team, address, clock } = this.#options;
    const session = await this.#connected();
    const [found] = await session.run([selectLeases(stream)]);
    const rows = found?.rows.map(leaseRowOf) ?? [];
    // Not before the answer: whoever has renewed meanwhile gets more time, not less.
    this.#sightings.note(rows, clock.monotonic());
    const names = new Set(rows.map(({ name }) => name));
    const missing = this.#wanted.filter((name) => !names.has(name));
    if (missing.length > 0) await this.#write([makeLeases(stream, missing)]);
    const isKnown = names.has(this.#self);
    if (!isKnown || clock.monotonic() - this.#renewedAt >= LEASE_TIMES.renew) await this.#renew();
    const { claim, giveUp, forget } = planLeases({
      owner,
      team,
      wanted: this.#wanted,
      held: this.#kept(),
      sightings: this.#sightings,
      now: clock.monotonic(),
    });
    if (forget.length > 0) await this.#write([forgetLeases(stream, forget)]);
    const endings = giveUp.flatMap((name) => this.#held.get(name) ?? []);
    for (const holding of endings) holding.end();
    const claimable = claim.filter(({ name }) => !this.#held.has(name));
    const sentAt = clock.monotonic();
    const claimed =
      claimable.length === 0
        ? []
        : await this.#write([claimLeases(stream, owner, address, claimable)]);
    for (const row of claimed) this.#hold(row, sentAt);
    if (claimed.length + endings.length > 0) this.#tell();
  }

  /** What is held and not being given up. */
  #kept(): readonly string[] {
    return [...this.#held.values()].flatMap((one) => (one.ending.aborted ? [] : one.name));
  }

  async #renew(): Promise<void> {
    const { stream, owner, address, clock } = this.#options;
    const sentAt = clock.monotonic();
    const rows = await this.#write(renewLeases(stream, owner, this.#self, address));
    this.#renewedAt = sentAt;
    const epochs = new Map(rows.map((row) => [row['name'], Number(row['epoch'])]));
    for (const holding of this.#held.values()) {
      if (epochs.get(holding.name) === holding.epoch) holding.trust(sentAt);
      else this.#lose(holding);
    }
  }

  #hold(row: Row, sentAt: number): void {
    const { stream, owner, clock, logger } = this.#options;
    const lease = { name: row['name'] ?? '', epoch: Number(row['epoch']) };
    const holding = new Holding(lease, clock, sentAt, async () => {
      if (this.#held.get(lease.name) === holding) this.#held.delete(lease.name);
      // Else it expires.
      await this.#write([releaseLease(stream, owner, lease)]).catch((error: unknown) =>
        this.#failed(error),
      );
    });
    this.#held.set(lease.name, holding);
    logger.info(`[leases] ${lease.name}: held by this process`);
  }

  #lose(holding: Holding): void {
    this.#held.delete(holding.name);
    this.#options.logger.warn(`[leases] ${holding.name}: could not be kept`);
    holding.lose();
    this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Runs statements as one transaction. */
  async #write(statements: readonly Statement[]): Promise<readonly Row[]> {
    const session = await this.#connected();
    return writeLeases(session, statements);
  }

  async #connected(): Promise<Session> {
    if (this.#session?.usable() === true) return this.#session;
    this.#opening ??= openSession(this.#options.database, ANSWER_MS).finally(() => {
      this.#opening = undefined;
    });
    this.#session = await this.#opening;
    return this.#session;
  }
}

class Holding implements HeldLease {
  readonly name: string;
  readonly epoch: number;
  readonly release: () => Promise<void>;
  readonly #clock: Clock;
  readonly #ending = new AbortController();
  readonly #lost = new AbortController();
  #trustedUntil: number;

  constructor(
    { name, epoch }: Pick<LeaseRow, 'name' | 'epoch'>,
    clock: Clock,
    claimedAt: number,
    release: () => Promise<void>,
  ) {
    this.name = name;
    this.epoch = epoch;
    this.release = release;
    this.#clock = clock;
    this.#trustedUntil = claimedAt + LEASE_TIMES.trust;
  }

  get ending(): AbortSignal {
    return this.#ending.signal;
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  isTrusted(): boolean {
    return !this.#lost.signal.aborted && this.#clock.monotonic() < this.#trustedUntil;
  }

  trust(sentAt: number): void {
    this.#trustedUntil = sentAt + LEASE_TIMES.trust;
  }

  end(): void {
    this.#ending.abort();
  }

  lose(): void {
    this.#ending.abort();
    this.#lost.abort();
  }
}
