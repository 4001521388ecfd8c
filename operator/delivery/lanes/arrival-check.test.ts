import { expect, test } from 'vitest';
import { createVirtualClock } from '../testing/virtual-clock.ts';
import { ArrivalCheck } from './arrival-check.ts';

const MINUTE_MS = 60_000;
const BEFORE = 1_000;
const TENANTS = Array.from({ length: 250 }, (_, index) => `t${index}`);

/** A billing system of which a test says what it has added up, and how long an answer takes. */
function createWorld(seconds = 5) {
  const clock = createVirtualClock();
  const added = new Set<string>();
  const calls: (readonly string[])[] = [];
  const givenUp: string[] = [];
  let underWay = 0;
  let mostAtOnce = 0;
  const arrived = new ArrivalCheck({
    clock,
    query: async (requested) => {
      calls.push([...requested.keys()]);
      underWay += 1;
      mostAtOnce = Math.max(mostAtOnce, underWay);
      await clock.sleep(seconds * 1_000);
      underWay -= 1;
      return new Set([...requested.keys()].filter((tenant) => added.has(tenant)));
    },
    onAnswer: () => undefined,
    onGivenUp: (tenant) => givenUp.push(tenant),
  });
  return { clock, added, calls, givenUp, arrived, mostAtOnce: () => mostAtOnce };
}

test('tenants whose plans change at once are queried together, a hundred in one request', async () => {
  const { clock, added, calls, arrived, mostAtOnce } = createWorld();
  for (const tenant of TENANTS) added.add(tenant);
  expect(TENANTS.filter((tenant) => arrived.has(tenant, BEFORE))).toStrictEqual([]);
  await clock.pass(MINUTE_MS);
  expect(TENANTS.filter((tenant) => arrived.has(tenant, BEFORE))).toStrictEqual(TENANTS);
  expect(calls.map(({ length }) => length)).toStrictEqual([1, 100, 100, 49]);
  expect(mostAtOnce()).toBe(1);
});

test('who waited long for the question is not given up before it differs for half an hour', async () => {
  const { clock, added, givenUp, arrived } = createWorld(20 * 60);
  const [first = '', second = ''] = TENANTS;
  arrived.has(first, BEFORE);
  arrived.has(second, BEFORE);
  await clock.pass(41 * MINUTE_MS);
  expect([arrived.has(first, BEFORE), arrived.has(second, BEFORE)]).toStrictEqual([false, false]);
  expect(givenUp).toStrictEqual([]);
  added.add(second);
  await clock.pass(60 * MINUTE_MS);
  expect([arrived.has(first, BEFORE), arrived.has(second, BEFORE)]).toStrictEqual([true, true]);
  expect(givenUp).toStrictEqual([first]);
});

test('a tenant that is forgotten while waiting is not queried', async () => {
  const { clock, calls, arrived } = createWorld();
  for (const tenant of TENANTS.slice(0, 3)) arrived.has(tenant, BEFORE);
  arrived.forget('t1');
  await clock.pass(MINUTE_MS);
  expect(calls).toStrictEqual([['t0'], ['t2']]);
});
