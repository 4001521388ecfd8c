import { array, assert, boolean, integer, property, tuple } from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Tenant } from '../model/tenant.ts';
import { memoryChanges, type RememberedId, rememberIds } from './memory.ts';
import { type KnownTenants, stepOffboarding } from './offboarding.ts';

const MINUTE = 60_000;
const GRACE = 60 * MINUTE;
const START = Date.UTC(2026, 0, 1);

function tenant(id: string): Tenant {
  return { id, displayName: id, region: 'r', clusters: [id], createdAt: 0 };
}

function fleet(size: number): readonly string[] {
  return Array.from({ length: size }, (_, index) => `t${index}`);
}

/** Rounds at given minutes; says which were offboarded in each. */
function simulate(
  passes: readonly (readonly [minute: number, present: readonly string[], unmetered?: string[]])[],
  graceMs = GRACE,
) {
  let known: KnownTenants = new Map();
  const log: string[] = [];
  let waiting = { count: 0, of: 0 };
  for (const [minute, present, unmetered = []] of passes) {
    const roster = { tenants: present.map(tenant), staying: new Set(unmetered) };
    const step = stepOffboarding(known, roster, START + minute * MINUTE, graceMs);
    known = step.known;
    waiting = step.waiting;
    for (const { id } of step.offboarded) log.push(`${minute}: ${id} offboarded`);
    for (const { id } of step.returned) log.push(`${minute}: ${id} returned`);
  }
  return { known, log, waiting };
}

const TEN = fleet(10);
const NINE = fleet(9);

describe('a customer is offboarded too early', () => {
  test('OFFBOARD_GRACE must have passed since the first round without it', () => {
    expect(
      simulate([
        [0, TEN],
        [1, NINE],
        [2, NINE],
        [60, NINE],
      ]).log,
    ).toStrictEqual([]);
    const { log } = simulate([
      [0, TEN],
      [1, NINE],
      [2, NINE],
      [61, NINE],
      [62, NINE],
    ]);
    expect(log).toStrictEqual(['61: t9 offboarded']);
  });

  test('one round without it is not enough, however long ago', () => {
    expect(
      simulate(
        [
          [0, TEN],
          [1, NINE],
        ],
        0,
      ).log,
    ).toStrictEqual([]);
    expect(
      simulate(
        [
          [0, TEN],
          [1, NINE],
          [2, NINE],
        ],
        0,
      ).log,
    ).toStrictEqual(['2: t9 offboarded']);
  });

  test('a return starts the grace period again', () => {
    const passes = [
      [0, TEN],
      [1, NINE],
      [30, TEN],
      [31, NINE],
      [61, NINE],
      [90, NINE],
    ] as const;
    expect(simulate(passes).log).toStrictEqual([]);
    expect(simulate([...passes, [91, NINE]]).log).toStrictEqual(['91: t9 offboarded']);
  });

  test('tenant clusters that are merely excluded from metering are not gone', () => {
    const { log, known } = simulate([
      [0, TEN],
      [1, NINE, ['t9']],
      [500, NINE, ['t9']],
      [501, NINE, ['t9']],
    ]);
    expect(log).toStrictEqual([]);
    expect(known.get('t9')?.presence).toStrictEqual({ kind: 'present' });
  });

  test('nobody is offboarded who was never metered', () => {
    expect(
      simulate([
        [0, [], ['x']],
        [1, []],
        [100, []],
        [101, []],
      ]).known.size,
    ).toBe(0);
  });
});

describe('a fault that hides many customers at once ends their subscriptions', () => {
  test('a fifth may leave; more wait for a further grace', () => {
    const eight = fleet(8);
    const left = simulate([
      [0, TEN],
      [1, eight],
      [2, eight],
      [61, eight],
    ]);
    expect(left.log).toStrictEqual(['61: t8 offboarded', '61: t9 offboarded']);

    const seven = fleet(7);
    const passes = [
      [0, TEN],
      [1, seven],
      [2, seven],
      [61, seven],
      [120, seven],
    ] as const;
    expect(simulate(passes)).toMatchObject({ log: [], waiting: { count: 3, of: 10 } });
    expect(simulate([...passes, [121, seven]]).log.length).toBe(3);
  });

  test('also when they trickle away over several rounds', () => {
    const passes = [
      [0, TEN],
      [1, fleet(8)],
      [2, fleet(6)],
      [3, fleet(6)],
      [62, fleet(6)],
    ] as const;
    expect(simulate(passes)).toMatchObject({ log: [], waiting: { count: 4, of: 10 } });
  });

  test('those that waited and return are just there again', () => {
    const { log, waiting } = simulate([
      [0, TEN],
      [1, []],
      [2, []],
      [90, TEN],
      [91, TEN],
    ]);
    expect(log).toStrictEqual([]);
    expect(waiting).toStrictEqual({ count: 0, of: 10 });
  });

  test('when all vanish, nobody goes before two graces', () => {
    const passes = [
      [0, TEN],
      [1, []],
      [2, []],
      [61, []],
      [120, []],
    ] as const;
    expect(simulate(passes).log).toStrictEqual([]);
    expect(simulate([...passes, [121, []]]).log.length).toBe(10);
  });
});

test('a customer that comes back after its offboarding goes unnoticed', () => {
  const gone = [
    [0, TEN],
    [1, NINE],
    [2, NINE],
    [61, NINE],
  ] as const;
  const { log, known } = simulate([...gone, [70, TEN]]);
  expect(log).toStrictEqual(['61: t9 offboarded', '70: t9 returned']);
  expect(known.get('t9')?.presence).toStrictEqual({ kind: 'present' });
});

test('offboarded customers are remembered for ever', () => {
  const gone = [
    [0, TEN],
    [1, NINE],
    [2, NINE],
    [61, NINE],
  ] as const;
  const days = (count: number) => count * 24 * 60;
  expect(simulate([...gone, [days(89), NINE]]).known.has('t9')).toBe(true);
  expect(simulate([...gone, [days(91), NINE]]).known.has('t9')).toBe(false);
});

test('whatever comes and goes, no customer is offboarded within the grace of being seen', () => {
  const passes = array(tuple(integer({ min: 1, max: 40 }), array(boolean(), { maxLength: 6 })), {
    maxLength: 40,
  });
  assert(
    property(passes, (steps) => {
      let known: KnownTenants = new Map();
      let now = START;
      const seen = new Map<string, number>();
      for (const [minutes, flags] of steps) {
        now += minutes * MINUTE;
        const present = flags.flatMap((there, index) => (there ? [`t${index}`] : []));
        for (const id of present) seen.set(id, now);
        const roster = { tenants: present.map(tenant), staying: new Set<string>() };
        const step = stepOffboarding(known, roster, now, GRACE);
        for (const { id } of step.offboarded)
          expect(now - (seen.get(id) ?? now)).toBeGreaterThan(GRACE);
        for (const id of present) expect(step.known.get(id)?.presence.kind).toBe('present');
        for (const id of seen.keys()) expect(step.known.has(id)).toBe(true);
        known = step.known;
      }
    }),
  );
});

test('every round compares and copies what is remembered of all customers that are gone', () => {
  const { known } = simulate([
    [0, TEN],
    [1, NINE],
    [2, NINE],
    [61, NINE],
  ]);
  const roster = { tenants: NINE.map(tenant), staying: new Set<string>() };
  const { known: next } = stepOffboarding(known, roster, START + 62 * MINUTE, GRACE);
  expect(known.get('t9')?.presence.kind).toBe('offboarded');
  expect(next.get('t9')).toBe(known.get('t9'));
  const gone = { id: 'tenant-a-b', goneAt: START };
  const ids = new Map<string, RememberedId>([
    ['a/b', gone],
    ['c/d', { id: 'tenant-c-d' }],
  ]);
  const memory = { ids, tenants: known };
  const remembered = rememberIds(memory, new Map(), new Set(['c/d']), START + MINUTE);
  expect(remembered.get('a/b')).toBe(gone);
  expect(remembered.get('c/d')).toBe(ids.get('c/d'));
  expect(memoryChanges(memory, { ids: remembered, tenants: known })).toStrictEqual([]);
});
