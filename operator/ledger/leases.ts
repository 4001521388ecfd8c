/** A right that one process has at a time (docs/ledger-format.md#several-replicas). */
export interface Lease {
  readonly name: string;
  /** Grows with every holder. */
  readonly epoch: number;
}

/** A lease that this process holds. */
export interface HeldLease extends Lease {
  /** Aborted when it should be given up in good order: somebody else may have it, or nobody wants it any more. */
  readonly ending: AbortSignal;
  /**
   * Aborted when it cannot be trusted any more: somebody else may have it by now. Whatever is under way must stop at
   * once; what it still writes is refused.
   */
  readonly lost: AbortSignal;
  /** Whether it may be acted upon now. Asks the clock, so that it is right also in a process that has just been asleep. */
  isTrusted(): boolean;
  /** Gives it up, once its work has ended: others take it with their next look. */
  release(): Promise<void>;
}

/** Leases that are shared out among all processes on a ledger. */
export interface Leases {
  /** The leases that there should be; what is held of others is given up. */
  want(names: readonly string[]): void;
  /** The leases that this process holds, those that it should give up included. */
  held(): ReadonlyMap<string, HeldLease>;
  /** Where the holder of a lease is reached, as far as it is known to live. */
  addressOf(name: string): string | undefined;
  /** Where the other processes of the team are reached, as far as they are known to live. */
  others(): readonly string[];
  /** Told when this process holds others than before, or should. Ends with the returned function. */
  subscribe(listener: () => void): () => void;
  /** Claims and renews until the signal is aborted. Who holds leases then releases them itself. */
  run(signal: AbortSignal): Promise<void>;
}

/** A row of a lease, as it was read. */
export interface LeaseRow {
  readonly name: string;
  /** Empty while nobody holds it. */
  readonly owner: string;
  readonly address: string;
  readonly epoch: number;
  readonly renewals: number;
}

/** Times of leases, milliseconds. */
export const LEASE_TIMES = {
  /** Between two looks at what there is. */
  look: 250,
  /** Between two renewals. */
  renew: 3_000,
  /** How long a holder trusts its lease from the sending of a renewal: less than others leave it alone. */
  trust: 8_000,
  /** How long a lease that is not renewed is left to its holder, from when somebody else saw it renewed. */
  expiry: 10_000,
} as const;

/** Among whom leases are shared out: the operators of a cluster, or the replicas of a hub. The others want leases of other names. */
export type LeaseTeam = 'operators' | 'hub';

/** What processes say of themselves are leases of their own, which nobody else takes. */
const PREFIXES: Readonly<Record<LeaseTeam, string>> = { operators: 'replica/', hub: 'hub/' };

/** The name of the row by which a process tells the others that it is there. */
export function replicaName(owner: string, team: LeaseTeam): string {
  return PREFIXES[team] + owner;
}

export function isReplica({ name }: Pick<LeaseRow, 'name'>, team?: LeaseTeam): boolean {
  const prefixes = team === undefined ? Object.values(PREFIXES) : [PREFIXES[team]];
  return prefixes.some((prefix) => name.startsWith(prefix));
}

/** Since when each lease stands as it does, by one process's monotonic clock: no clocks are compared. */
export class LeaseSightings {
  readonly #seen = new Map<string, { readonly row: LeaseRow; readonly since: number }>();

  /** Notes what was read of all leases by `at`. */
  note(rows: readonly LeaseRow[], at: number): void {
    const names = new Set(rows.map(({ name }) => name));
    for (const name of this.#seen.keys()) if (!names.has(name)) this.#seen.delete(name);
    for (const row of rows) {
      const before = this.#seen.get(row.name)?.row;
      const isSame = before?.epoch === row.epoch && before.renewals === row.renewals;
      if (!isSame || before.owner !== row.owner) this.#seen.set(row.name, { row, since: at });
    }
  }

  row(name: string): LeaseRow | undefined {
    return this.#seen.get(name)?.row;
  }

  rows(): readonly LeaseRow[] {
    return [...this.#seen.values()].map(({ row }) => row);
  }

  /** Whether nobody has renewed a lease for so long. */
  isSilent(name: string, at: number, ms: number): boolean {
    const seen = this.#seen.get(name);
    return seen !== undefined && at - seen.since >= ms;
  }
}

/** What one process does about leases after a look. */
export interface LeasePlan {
  /** To be claimed, as they were seen. */
  readonly claim: readonly LeaseRow[];
  /** To be given up in good order. */
  readonly giveUp: readonly string[];
  /** Processes that are gone. */
  readonly forget: readonly LeaseRow[];
}

/** What there is to decide on. */
export interface LeaseSituation {
  readonly owner: string;
  readonly team: LeaseTeam;
  readonly wanted: readonly string[];
  /** Those that this process holds and is not giving up. */
  readonly held: readonly string[];
  readonly sightings: LeaseSightings;
  /** Of the monotonic clock. */
  readonly now: number;
}

/**
 * Shares leases out: nobody keeps more than the number of leases divided by that of living processes of its team, rounded up, and
 * whoever has fewer claims what is free. A lease is free when it was released, when its holder has been silent for
 * {@link LEASE_TIMES}.expiry, or when it is this process's own from before it lost trust in it.
 */
export function planLeases(situation: LeaseSituation): LeasePlan {
  const { owner, team, wanted, held, sightings, now } = situation;
  const isSilent = ({ name }: LeaseRow): boolean =>
    sightings.isSilent(name, now, LEASE_TIMES.expiry);
  const isSelf = ({ name }: LeaseRow): boolean => name === replicaName(owner, team);
  const replicas = sightings.rows().filter((row) => isReplica(row) && !isSelf(row));
  const others = replicas.filter((row) => isReplica(row, team) && !isSilent(row));
  const share = Math.ceil(wanted.length / (others.length + 1));
  const unwanted = held.filter((name) => !wanted.includes(name));
  const kept = held.filter((name) => wanted.includes(name));
  const free = wanted.flatMap((name) => {
    const row = sightings.row(name);
    if (row === undefined || held.includes(name)) return [];
    const isFree = row.owner === '' || row.owner === owner || isSilent(row);
    return isFree ? [row] : [];
  });
  return {
    claim: free.slice(0, Math.max(0, share - kept.length)),
    giveUp: [...unwanted, ...kept.slice(share)],
    // Whoever comes next has not seen for how long they have been silent, and would leave them their share.
    forget: replicas.filter(isSilent),
  };
}
