import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Contract, type ContractPlan, overlapsOf, planContract } from './contract-plan.ts';

const HOUR_MS = 3_600_000;
const CARDS = ['standard', 'premium'] as const;

/**
 * Carries out a step of provisioning on the contracts; with `crashes` it stops after its first
 * call.
 */
function carryOut(
  contracts: readonly Contract[],
  plan: ContractPlan,
  card: string,
  crashes: boolean,
): readonly Contract[] {
  const make = (from: number): Contract => ({
    id: `c${contracts.length}`,
    rateCardId: card,
    from,
    to: Number.POSITIVE_INFINITY,
    isOurs: true,
    isLinked: false,
    isBare: true,
  });
  const change = (changed: Contract, to: number): readonly Contract[] =>
    contracts.map((contract) => (contract === changed ? { ...contract, to } : contract));
  if (plan.kind === 'create') return [...contracts, make(plan.from)];
  if (plan.kind === 'reopen') return change(plan.contract, Number.POSITIVE_INFINITY);
  if (plan.kind === 'undo') {
    const left = contracts.filter((contract) => contract !== plan.next);
    if (crashes) return left;
    return left.map((one) =>
      one === plan.contract ? { ...one, to: Number.POSITIVE_INFINITY } : one,
    );
  }
  if (plan.kind !== 'hand-over') return contracts;
  const ended = change(plan.contract, plan.at);
  return crashes ? ended : [...ended, make(plan.at)];
}

test('whatever rate cards are requested and wherever it is cut off: no hour is covered twice, none is left out', () => {
  const step = fc.record({
    card: fc.constantFrom(...CARDS),
    passed: fc.integer({ min: 0, max: 5 * HOUR_MS }),
    crashes: fc.boolean(),
    change: fc.constantFrom('now' as const, 'period-end' as const),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), fc.nat(HOUR_MS), (steps, from) => {
      let contracts: readonly Contract[] = [];
      let now = from;
      for (const { card, passed, crashes, change } of steps) {
        now += passed;
        const plan = planContract(contracts, card, from, now, change);
        contracts = carryOut(contracts, plan, card, crashes);
        expect(overlapsOf(contracts)).toEqual([]);
      }
      // The next attempt completes an interrupted step.
      const card = steps.at(-1)?.card ?? CARDS[0];
      contracts = carryOut(contracts, planContract(contracts, card, from, now), card, false);
      contracts = carryOut(contracts, planContract(contracts, card, from, now), card, false);
      const last = now + 20 * HOUR_MS;
      for (let hour = Math.floor(from / HOUR_MS) * HOUR_MS; hour < last; hour += HOUR_MS) {
        const covering = contracts.filter((one) => one.from <= hour && hour < one.to);
        expect(covering).toHaveLength(1);
      }
      expect(contracts.find(({ to }) => to === Number.POSITIVE_INFINITY)?.rateCardId).toBe(card);
      expect(contracts.every(({ from: start, to }) => start % HOUR_MS === 0 && to > start)).toBe(
        true,
      );
    }),
  );
});

const OURS: Contract = {
  id: 'ours',
  rateCardId: 'standard',
  from: 0,
  to: Number.POSITIVE_INFINITY,
  isOurs: true,
  isLinked: false,
  isBare: true,
};

test('a contract that somebody made in Metronome is never ended', () => {
  const foreign = { ...OURS, isOurs: false };
  expect(planContract([foreign], 'premium', 0, HOUR_MS)).toEqual({
    kind: 'foreign',
    contract: foreign,
  });
  expect(planContract([foreign], 'standard', 0, HOUR_MS).kind).toBe('keep');
});

test('a contract of ours gives way to one that somebody made in Metronome', () => {
  const negotiated = { ...OURS, id: 'negotiated', from: 3 * HOUR_MS, isOurs: false };
  expect(overlapsOf([OURS, negotiated])).toEqual([{ contract: OURS, at: 3 * HOUR_MS }]);
  expect(overlapsOf([{ ...OURS, to: 3 * HOUR_MS }, negotiated])).toEqual([]);
});

test('a tenant that comes back gets a contract that begins after the one that ended', () => {
  const ended = { ...OURS, to: 5 * HOUR_MS };
  const back = 9.5 * HOUR_MS;
  expect(planContract([ended], 'standard', back, back)).toEqual({
    kind: 'create',
    from: 9 * HOUR_MS,
  });
  const soon = 4.5 * HOUR_MS;
  expect(planContract([ended], 'standard', soon, soon)).toEqual({
    kind: 'reopen',
    contract: ended,
  });
});

test('a change that is taken back before it comes bills no hour by the wrong card', () => {
  const ending = { ...OURS, to: 5 * HOUR_MS };
  const next = { ...OURS, id: 'next', rateCardId: 'premium', from: 5 * HOUR_MS };
  expect(planContract([ending, next], 'standard', 0, 4.5 * HOUR_MS)).toEqual({
    kind: 'undo',
    contract: ending,
    next,
  });
  // The change has happened: its usage is billed, and it ends at the next full hour.
  expect(planContract([ending, next], 'standard', 0, 5.5 * HOUR_MS)).toEqual({
    kind: 'hand-over',
    contract: next,
    at: 6 * HOUR_MS,
  });
});

test('a change at the end of the period comes on the first of the next month, and can be replaced until then', () => {
  const month = Date.UTC(1970, 1, 1);
  expect(planContract([OURS], 'premium', 0, 9.5 * HOUR_MS, 'period-end')).toEqual({
    kind: 'hand-over',
    contract: OURS,
    at: month,
  });
  const ending = { ...OURS, to: month };
  const next = { ...OURS, id: 'next', rateCardId: 'premium', from: month };
  for (const card of ['standard', 'other']) {
    expect(planContract([ending, next], card, 0, 20 * HOUR_MS, 'period-end')).toEqual({
      kind: 'undo',
      contract: ending,
      next,
    });
  }
});

test('a change for now takes the place of one at the end of the period, on whichever card', () => {
  const month = Date.UTC(1970, 1, 1);
  const ending = { ...OURS, to: month };
  const next = { ...OURS, id: 'next', rateCardId: 'premium', from: month };
  for (const card of ['premium', 'other']) {
    expect(planContract([ending, next], card, 0, 20.5 * HOUR_MS, 'now')).toEqual({
      kind: 'undo',
      contract: ending,
      next,
    });
    // The next attempt after a crash between the two steps of the undoing.
    expect(planContract([ending], card, 0, 20.5 * HOUR_MS, 'now')).toEqual({
      kind: 'hand-over',
      contract: ending,
      at: 21 * HOUR_MS,
    });
  }
  // The change comes at the next full hour, and is not repeated until then.
  const soon = { ...next, from: 21 * HOUR_MS };
  const before = { ...OURS, to: 21 * HOUR_MS };
  expect(planContract([before, soon], 'premium', 0, 20.5 * HOUR_MS, 'now').kind).toBe('keep');
});

test('a contract of ours that another one covers from its beginning goes altogether', () => {
  const ours = { ...OURS, from: 5 * HOUR_MS };
  const theirs = { ...OURS, id: 'theirs', isOurs: false };
  for (const from of [2 * HOUR_MS, 5 * HOUR_MS]) {
    expect(overlapsOf([ours, { ...theirs, from }])).toEqual([{ contract: ours, at: from }]);
    expect(overlapsOf([{ ...theirs, from }, ours])).toEqual([{ contract: ours, at: from }]);
  }
  expect(overlapsOf([{ ...theirs, to: 5 * HOUR_MS }, ours])).toEqual([]);
});
