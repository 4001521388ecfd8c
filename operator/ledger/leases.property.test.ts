import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  LEASE_TIMES,
  type LeaseRow,
  LeaseSightings,
  type LeaseTeam,
  planLeases,
  replicaName,
} from './leases.ts';

/** The table of leases, as one server has it. */
class Table {
  readonly rows = new Map<string, LeaseRow>();

  /** Changes a row unless it is another one by now. */
  change(seen: LeaseRow, change: Partial<LeaseRow>): boolean {
    const row = this.rows.get(seen.name);
    if (row?.epoch !== seen.epoch || row.renewals !== seen.renewals) return false;
    this.rows.set(seen.name, { ...row, ...change });
    return true;
  }
}

/** One process with a monotonic clock of its own. */
class Claimant {
  readonly owner: string;
  readonly trustedUntil = new Map<string, number>();
  readonly #table: Table;
  readonly #sightings = new LeaseSightings();
  /** Its clock is ahead of the others' by so much. */
  readonly #ahead: number;
  readonly #team: LeaseTeam;

  constructor(table: Table, index: number, team: LeaseTeam = 'operators') {
    this.#table = table;
    this.#team = team;
    this.owner = `process-${index}`;
    this.#ahead = index * 86_400_000;
  }

  /** Ends in good order. */
  leave(): void {
    const { rows } = this.#table;
    for (const row of rows.values()) {
      if (row.owner === this.owner) rows.set(row.name, { ...row, owner: '' });
    }
    rows.delete(replicaName(this.owner, this.#team));
  }

  trusted(at: number): readonly string[] {
    return [...this.trustedUntil].flatMap(([name, until]) => (at < until ? [name] : []));
  }

  /** A look of which sending and answer lie apart, as they do when a process or a server sleeps meanwhile. */
  look(wanted: readonly string[], sentAt: number, answeredAt: number): void {
    const { rows } = this.#table;
    this.#sightings.note([...rows.values()], answeredAt + this.#ahead);
    for (const [name, until] of this.trustedUntil)
      if (until <= answeredAt) this.trustedUntil.delete(name);
    for (const row of rows.values()) {
      if (row.owner !== this.owner) {
        this.trustedUntil.delete(row.name);
        continue;
      }
      this.#table.change(row, { renewals: row.renewals + 1 });
      if (this.trustedUntil.has(row.name)) this.#trust(row.name, sentAt);
    }
    const own = replicaName(this.owner, this.#team);
    if (!rows.has(own)) {
      rows.set(own, { name: own, owner: this.owner, address: '', epoch: 1, renewals: 0 });
    }
    const held = this.trusted(answeredAt);
    const plan = planLeases({
      owner: this.owner,
      team: this.#team,
      wanted,
      held,
      sightings: this.#sightings,
      now: answeredAt + this.#ahead,
    });
    for (const { name } of plan.forget) rows.delete(name);
    for (const seen of plan.claim) {
      const { epoch, renewals } = rows.get(seen.name) ?? seen;
      const isClaimed =
        (seen.renewals === renewals || seen.owner === this.owner) &&
        seen.epoch === epoch &&
        this.#table.change(rows.get(seen.name) ?? seen, {
          owner: this.owner,
          epoch: epoch + 1,
          renewals: renewals + 1,
        });
      if (isClaimed) this.#trust(seen.name, sentAt);
    }
    for (const name of plan.giveUp) {
      this.trustedUntil.delete(name);
      const row = rows.get(name);
      if (row?.owner === this.owner) this.#table.change(row, { owner: '' });
    }
  }

  #trust(name: string, sentAt: number): void {
    this.trustedUntil.set(name, sentAt + LEASE_TIMES.trust);
  }
}

const NAMES = Array.from({ length: 7 }, (_, index) => `feeder/${index}`);

function tableOf(names: readonly string[]): Table {
  const table = new Table();
  for (const name of names) {
    table.rows.set(name, { name, owner: '', address: '', epoch: 0, renewals: 0 });
  }
  return table;
}

/** Which process looks, after how long, and how long its answer takes. */
const someLook = fc.record({
  claimant: fc.nat({ max: 4 }),
  after: fc.oneof(fc.integer({ min: 0, max: 800 }), fc.integer({ min: 0, max: 20_000 })),
  answer: fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 12_000 })),
});

test('no order of looks, pauses and slow answers lets two processes trust one lease at a time', () => {
  fc.assert(
    fc.property(fc.array(someLook, { maxLength: 120 }), (looks) => {
      const table = tableOf(NAMES);
      const claimants = Array.from({ length: 5 }, (_, index) => new Claimant(table, index));
      let now = 0;
      for (const { claimant, after, answer } of looks) {
        now += after;
        const sentAt = now;
        now += answer;
        claimants[claimant]?.look(NAMES, sentAt, now);
        const trusted = claimants.flatMap((one) => one.trusted(now));
        expect(trusted.length).toBe(new Set(trusted).size);
      }
    }),
    { numRuns: 500 },
  );
});

test('processes that live share the leases out evenly, and those of one that died within 11 seconds', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 0, max: 30 }),
      (count, leases) => {
        const names = NAMES.concat(
          Array.from({ length: leases }, (_, index) => `feeder/x${index}`),
        );
        const table = tableOf(names);
        const claimants = Array.from(
          { length: count + 1 },
          (_, index) => new Claimant(table, index),
        );
        let now = 0;
        const run = (living: readonly Claimant[], ms: number): void => {
          for (const until = now + ms; now < until; now += LEASE_TIMES.look) {
            for (const one of living) one.look(names, now, now);
          }
        };
        const balanced = (living: readonly Claimant[]): void => {
          const held = living.map((one) => one.trusted(now).length);
          expect(held.reduce((a, b) => a + b, 0)).toBe(names.length);
          expect(Math.max(...held)).toBeLessThanOrEqual(Math.ceil(names.length / living.length));
        };
        run(claimants, 3_000);
        balanced(claimants);
        const rest = claimants.slice(1);
        run(rest, LEASE_TIMES.expiry + 2 * LEASE_TIMES.look);
        balanced(rest);
      },
    ),
    { numRuns: 60 },
  );
});

test('leases that were released are left alone for ten seconds by one who came after another had died, and counts it', () => {
  const table = tableOf(NAMES);
  const [dead, old, young] = [0, 1, 2].map((index) => new Claimant(table, index));
  let now = 0;
  const run = (living: readonly (Claimant | undefined)[], ms: number): void => {
    for (const until = now + ms; now < until; now += LEASE_TIMES.look) {
      for (const one of living) one?.look(NAMES, now, now);
    }
  };
  run([dead, old], 3_000);
  run([old], LEASE_TIMES.expiry + LEASE_TIMES.look);
  run([old, young], 1_000);
  old?.leave();
  run([young], LEASE_TIMES.look);
  expect(young?.trusted(now).toSorted()).toEqual(NAMES);
});

test('a cluster’s operators, which want other leases or none, leave no lease of a hub with nobody', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 0, max: 3 }),
      fc.integer({ min: 0, max: 3 }),
      (hubs, operators, own) => {
        const ofOperators = Array.from({ length: own }, (_, index) => `feeder/own-${index}`);
        const table = tableOf([...NAMES, ...ofOperators]);
        const some = (team: LeaseTeam, count: number, from: number) =>
          Array.from({ length: count }, (_, index) => new Claimant(table, from + index, team));
        const hub = some('hub', hubs, 0);
        const cluster = some('operators', operators, hubs);
        let now = 0;
        for (; now < 3_000; now += LEASE_TIMES.look) {
          for (const one of hub) one.look(NAMES, now, now);
          for (const one of cluster) one.look(ofOperators, now, now);
        }
        const held = (all: readonly Claimant[]) =>
          all.flatMap((one) => one.trusted(now)).toSorted();
        expect(held(hub)).toEqual(NAMES);
        expect(held(cluster)).toEqual(operators === 0 ? [] : ofOperators);
      },
    ),
  );
});
