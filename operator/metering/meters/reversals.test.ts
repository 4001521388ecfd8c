import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { decimalFromNanos } from '../../model/decimal.ts';
import { type Reversal, settleReversals } from './reversals.ts';
import { atOnce } from '../../model/at-once.ts';
import { assembleEvents } from './assemble.ts';
import { EvidenceLog } from './evidence-log.ts';
import { Explainer } from './explanation.ts';
import { addTo, type Charge, type ChargeIdentity, createTally, identityKey } from './tally.ts';

const HOUR = 3_600_000;

const identities = fc.record<ChargeIdentity>({
  tenant: fc.constantFrom('x', 'y'),
  metric: fc.constantFrom('tenant_cpu_core_hours', 'tenant_memory_gb_hours'),
  region: fc.constant('r'),
  resource_id: fc.constantFrom('c', 'd'),
  dimensions: fc.record({ capacity_type: fc.constantFrom('spot', 'on-demand') }),
});

const charges = fc
  .array(
    fc.record({
      identity: identities,
      amount: fc.bigInt({ min: 0n, max: 1000n }),
      carried: fc.bigInt({ min: -2000n, max: 1000n }),
    }),
    { maxLength: 10 },
  )
  .map((list) => {
    const unique = new Map(list.map((one) => [identityKey(one.identity), one]));
    return [...unique.values()].map(
      (one): Charge => ({
        ...one,
        key: identityKey(one.identity),
        carriedMs: Number(one.carried),
        properties: {},
      }),
    );
  });

const openReversals = fc.array(
  fc.record<Reversal>({
    identity: identities,
    amount: fc.bigInt({ min: -2000n, max: -1n }),
    ms: fc.integer({ min: -1000, max: 0 }),
    since: fc.constant(0),
  }),
  { maxLength: 5 },
);

const sum = (values: readonly bigint[]): bigint => values.reduce((a, b) => a + b, 0n);

test('nothing is ever given back twice, forgotten, or charged below zero', () => {
  fc.assert(
    fc.property(charges, openReversals, (list, open) => {
      const before = sum([
        ...list.map(({ amount, carried }) => amount + carried),
        ...open.map(({ amount }) => amount),
      ]);
      const { settled, reversals: left } = settleReversals(list, open, HOUR, 6 * HOUR);
      expect(settled.every(({ total }) => total >= 0n)).toBe(true);
      expect(left.every(({ amount }) => amount < 0n)).toBe(true);
      expect(sum([...settled.map(({ total }) => total), ...left.map(({ amount }) => amount)])).toBe(
        before,
      );
    }),
  );
});

test('no tenant pays with the reversal of another', () => {
  fc.assert(
    fc.property(charges, openReversals, (list, open) => {
      const of = (tenant: string) =>
        sum([
          ...list
            .filter(({ identity }) => identity.tenant === tenant)
            .map(({ amount, carried }) => amount + carried),
          ...open.filter(({ identity }) => identity.tenant === tenant).map(({ amount }) => amount),
        ]);
      const { settled, reversals: left } = settleReversals(list, open, HOUR, 6 * HOUR);
      for (const tenant of ['x', 'y']) {
        const after = sum([
          ...settled
            .filter(({ charge }) => charge.identity.tenant === tenant)
            .map(({ total }) => total),
          ...left.filter(({ identity }) => identity.tenant === tenant).map(({ amount }) => amount),
        ]);
        expect(after).toBe(of(tenant));
      }
    }),
  );
});

test('no object time is given back twice or forgotten', () => {
  const ms = (values: readonly { readonly ms: number }[]): number =>
    values.reduce((total, one) => total + one.ms, 0);
  const carriedMs = (values: readonly { readonly carriedMs: number }[]): number =>
    values.reduce((total, one) => total + one.carriedMs, 0);
  fc.assert(
    fc.property(charges, openReversals, (list, open) => {
      const { settled, reversals: left } = settleReversals(list, open, HOUR, 6 * HOUR);
      expect(carriedMs(settled) + ms(left)).toBe(carriedMs(list) + ms(open));
    }),
  );
});

test('a reversal reduces the charge of its own identity before one of its siblings', () => {
  const charge = (resource: string): Charge => {
    const identity = { tenant: 'x', metric: 'tenant_cpu_core_hours', resource_id: resource };
    const key = identityKey(identity);
    return { identity, key, amount: 100n, carried: 0n, carriedMs: 0, properties: {} };
  };
  const [sibling, own] = [charge('d'), charge('c')];
  const reversal = { identity: own.identity, amount: -130n, ms: -1300, since: 0 };
  const { settled, reversals: left } = settleReversals([sibling, own], [reversal], HOUR, 6 * HOUR);
  expect(settled.map(({ total, carriedMs }) => [total, carriedMs])).toEqual([
    [70n, -300],
    [0n, -1000],
  ]);
  expect(left).toEqual([]);
});

test('late facts at two rates that cancel each other out do not lose their object time', () => {
  const identity = { tenant: 'x', metric: 'tenant_cpu_core_hours' };
  const key = identityKey(identity);
  const charge = { identity, key, amount: 0n, carried: 0n, carriedMs: 500, properties: {} };
  const { settled, reversals: left } = settleReversals([charge], [], HOUR, 6 * HOUR);
  expect(settled).toEqual([{ charge, total: 0n, carriedMs: 500 }]);
  expect(left).toEqual([]);
});

test('a reversal that finds no charge within MAX_BACKFILL is reported, and dropped', () => {
  const identity = { tenant: 'x', metric: 'tenant_cpu_core_hours' };
  const reversal = { identity, amount: -5n, ms: -20_000, since: HOUR };
  const waiting = settleReversals([], [reversal], 6 * HOUR, 6 * HOUR);
  expect(waiting).toEqual({ settled: [], reversals: [reversal], expiredMs: 0 });
  const given = settleReversals([], [reversal], 7 * HOUR, 6 * HOUR);
  expect(given).toEqual({ settled: [], reversals: [], expiredMs: 20_000 });
});

test('what two scopes charged is one event, and is explained by what both measured', () => {
  const identity = {
    tenant: 'x',
    metric: 'tenant_lb_hours',
    region: 'r',
    resource_id: 'x',
  } as const;
  const charges = ['host', 'own'].map((name) => {
    const charge = createTally().charge(identity);
    const object = { uid: name, namespace: 'n', name };
    const evidence = {
      kind: 'Service',
      object,
      state: {},
      from: 0,
      to: HOUR,
      carried: false,
    } as const;
    addTo(charge, { carried: false, weight: 1, ms: HOUR }, 1_000_000_000n, evidence);
    return charge;
  });
  const window = { start: 0, end: HOUR };
  const { settled } = settleReversals(charges, [], HOUR, HOUR);
  const recordedAt = '1970-01-01T01:00:00Z';
  const { events, sources } = atOnce(
    assembleEvents(settled, { window, recordedAt, backfilled: false }),
  );
  const [closing] = new EvidenceLog().close({ window, closedAt: HOUR, sources });
  const [event] = events;
  if (event === undefined || closing?.changes === undefined) throw new Error('nothing was listed');
  // A span at a constant rate needs no amounts.
  expect(closing.amounts).toEqual({ spans: [], nanos: [] });
  const explainer = new Explainer(event);
  explainer.add({ start: 0, changes: closing.changes });
  expect(explainer.explanation(closing.amounts)).toMatchObject({
    measured: 2,
    givenBack: 0,
    addsUp: true,
    shares: [
      [0, 'host', 'host', null, 0, HOUR, 1, 0],
      [0, 'own', 'own', null, 0, HOUR, 1, 0],
    ],
  });
});

test('an explanation reports that it does not add up to the number, beyond rounding', () => {
  const identity = { tenant: 'x', metric: 'tenant_lb_hours', region: 'r', resource_id: 'x' };
  const charge = createTally().charge(identity);
  const object = { uid: 'u', namespace: 'n', name: 'n' };
  const bounds = { from: 0, to: HOUR, carried: false } as const;
  const evidence = { kind: 'Service', object, state: {}, ...bounds } as const;
  addTo(charge, { carried: false, weight: 1, ms: HOUR }, 1_000_000_000n, evidence);
  const window = { start: 0, end: HOUR };
  const { settled } = settleReversals([charge], [], HOUR, HOUR);
  const recordedAt = '1970-01-01T01:00:00Z';
  const { events, sources } = atOnce(
    assembleEvents(settled, { window, recordedAt, backfilled: false }),
  );
  const [closing] = new EvidenceLog().close({ window, closedAt: HOUR, sources });
  const [event] = events;
  if (event === undefined || closing?.changes === undefined) throw new Error('nothing was listed');
  const { changes, amounts } = closing;
  const addsUp = (nanos: bigint): boolean | undefined => {
    const explainer = new Explainer({ ...event, quantity: decimalFromNanos(nanos) });
    explainer.add({ start: 0, changes });
    return explainer.explanation(amounts)?.addsUp;
  };
  const one = 1_000_000_000n;
  expect([one, one + 2n, one - 2n].map(addsUp)).toEqual([true, true, true]);
  expect([one + 3n, one / 2n, 2n * one].map(addsUp)).toEqual([false, false, false]);
  const other = new Explainer({ ...event, tenant: 'y' });
  other.add({ start: 0, changes });
  expect(other.explanation(amounts)).toBeUndefined();
  // Evidence from before the restart does not count.
  const again = new Explainer(event);
  again.add({ start: 0, changes });
  again.add({ start: 0, changes });
  expect(again.explanation(amounts)?.shares).toHaveLength(1);
});

test('an explanation has what was reversed, also where nothing is carried into the window', () => {
  const identity = { tenant: 'x', metric: 'tenant_lb_hours', region: 'r', resource_id: 'x' };
  const charge = createTally().charge(identity);
  const object = { uid: 'u', namespace: 'n', name: 'n' };
  const bounds = { from: 0, to: HOUR, carried: false } as const;
  const evidence = { kind: 'Service', object, state: {}, ...bounds } as const;
  addTo(charge, { carried: false, weight: 1, ms: HOUR }, 1_000_000_000n, evidence);
  const amount = -250_000_000n * BigInt(HOUR);
  const reversal = { identity, amount, ms: -HOUR / 4, since: 0 };
  const window = { start: 0, end: HOUR };
  const { settled } = settleReversals([charge], [reversal], HOUR, HOUR);
  const recordedAt = '1970-01-01T01:00:00Z';
  const { events, sources } = atOnce(
    assembleEvents(settled, { window, recordedAt, backfilled: false }),
  );
  const [closing] = new EvidenceLog().close({ window, closedAt: HOUR, sources });
  const [event] = events;
  if (event === undefined || closing?.changes === undefined) throw new Error('nothing was listed');
  const explainer = new Explainer(event);
  explainer.add({ start: 0, changes: closing.changes });
  expect(event).toMatchObject({ quantity: '0.75', properties: { carried_seconds: -900 } });
  expect(explainer.explanation(closing.amounts)).toMatchObject({
    measured: 1,
    carried: 0,
    givenBack: -0.25,
    addsUp: true,
  });
});

test('what two scopes charged late is in one event with the time, the doubt and the shares of both', () => {
  const identity = { tenant: 'x', metric: 'tenant_lb_hours', region: 'r', resource_id: 'x' };
  const late = (name: string, ms: number, uncertain: number, leftOut: number): Charge => {
    const charge = createTally().charge(identity);
    const object = { uid: name, namespace: 'n', name };
    const bounds = { from: -ms, to: 0, carried: true } as const;
    const evidence = { kind: 'Service', object, state: {}, ...bounds } as const;
    addTo(charge, { carried: true, weight: 1, ms, uncertain }, 1_000_000_000n, evidence);
    const rest = charge.shares?.rest ?? { count: 0, amount: 0 };
    rest.count += leftOut;
    rest.amount += leftOut * 1e9 * HOUR;
    return charge;
  };
  const charges = [late('host', HOUR, 5000, 1), late('own', HOUR / 2, 0, 2)];
  const window = { start: HOUR, end: 2 * HOUR };
  const { settled } = settleReversals(charges, [], window.end, HOUR);
  const recordedAt = '1970-01-01T02:00:00Z';
  const { events, sources } = atOnce(
    assembleEvents(settled, { window, recordedAt, backfilled: false }),
  );
  expect(events).toMatchObject([
    { quantity: '1.5', properties: { carried_seconds: 5400, uncertain_seconds: 5 } },
  ]);
  const [closing] = new EvidenceLog().close({ window, closedAt: window.end, sources });
  const [event] = events;
  if (event === undefined || closing?.changes === undefined) throw new Error('nothing was listed');
  const explainer = new Explainer(event);
  explainer.add({ start: window.start, changes: closing.changes });
  expect(explainer.explanation(closing.amounts)).toMatchObject({
    carried: 1.5,
    shares: [
      [0, 'host', 'host', null, -HOUR, 0, 1, 1],
      [0, 'own', 'own', null, -HOUR / 2, 0, 0.5, 1],
    ],
    remainder: { count: 3, quantity: 3 },
  });
});
