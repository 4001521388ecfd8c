import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BILLING_STATES, type BillingState } from '../../../settings/settings.ts';
import {
  applyAlert,
  applyBudget,
  applyManual,
  effectiveState,
  isEmpty,
  newRecord,
  type StatedAlert,
  type TenantRecord,
} from './tenant-record.ts';

const NOW = 1_800_000_000_000;
const DAY = 86_400_000;

function alert(state: BillingState, at: number, more: Partial<StatedAlert> = {}): StatedAlert {
  return {
    provider: 'stripe',
    id: `evt_${at}`,
    type: `type.${state}`,
    customer: { id: 'cus_1' },
    subject: 'subscription/sub_1',
    reason: 'because',
    ...more,
    state,
    at,
  };
}

function after(...alerts: readonly StatedAlert[]): TenantRecord {
  return alerts.reduce(
    (record, each) => applyAlert(record, each, NOW).record,
    newRecord('acme', NOW),
  );
}

const stateOf = (record: TenantRecord) => effectiveState(record).state;

describe('of one subject', () => {
  test('an older event never undoes a newer one, whichever arrives first', () => {
    const unpaid = alert('suspended', NOW - 10);
    const paid = alert('active', NOW);
    expect(stateOf(after(unpaid, paid))).toBe('active');
    expect(stateOf(after(paid, unpaid))).toBe('active');
    expect(applyAlert(after(paid), unpaid, NOW).kind).toBe('stale');
  });

  test('of two events of the same second the more severe holds, whichever arrives first', () => {
    const failed = alert('delinquent', NOW);
    const unpaid = alert('suspended', NOW);
    expect(stateOf(after(failed, unpaid))).toBe('suspended');
    expect(stateOf(after(unpaid, failed))).toBe('suspended');
  });

  test('what is put in order within the second of its trouble is in order', () => {
    expect(stateOf(after(alert('suspended', NOW), alert('active', NOW)))).toBe('active');
  });

  test('a newer event may also lessen the state', () => {
    expect(stateOf(after(alert('suspended', 1), alert('delinquent', 2)))).toBe('delinquent');
  });

  test('whatever the order of arrival, the same is known in the end', () => {
    const anyAlert = fc
      .record({
        state: fc.constantFrom(...BILLING_STATES),
        at: fc.integer({ min: NOW - 20, max: NOW }),
        subject: fc.constantFrom('subscription/a', 'invoice/b', 'alert/c'),
        provider: fc.constantFrom('stripe', 'metronome'),
      } as const)
      .map(({ state, at, ...more }) => alert(state, at, more));
    fc.assert(
      fc.property(
        fc.uniqueArray(anyAlert, { maxLength: 12, selector: ({ at }) => at }),
        fc.array(fc.nat(), { maxLength: 12 }),
        (alerts, keys) => {
          const shuffled = alerts
            .map((each, index) => [keys[index] ?? 0, each] as const)
            .toSorted(([a], [b]) => a - b)
            .map(([, each]) => each);
          expect(stateOf(after(...shuffled))).toBe(stateOf(after(...alerts)));
        },
      ),
    );
  });
});

describe('of several sources', () => {
  test('the most severe counts: an alert does not make a suspended tenant merely warned (accident 40)', () => {
    const unpaid = alert('suspended', 1);
    const spend = alert('warning', 2, { provider: 'metronome', subject: 'alert/a1' });
    const record = after(unpaid, spend);
    expect(effectiveState(record)).toMatchObject({
      state: 'suspended',
      source: 'stripe:subscription/sub_1',
      eventType: 'type.suspended',
    });
  });

  test('a payment of another subscription or invoice lifts nothing (accident 40)', () => {
    const unpaid = alert('suspended', 1);
    const other = { settles: 'alerts', subject: 'invoice/in_2' } as const;
    expect(stateOf(after(unpaid, alert('active', 2, other)))).toBe('suspended');
  });

  test('a payment ends the usage alerts before it, also those that arrive later', () => {
    const spend = alert('warning', 1, { subject: 'alert/a1' });
    const paid = alert('active', 2, { settles: 'alerts' });
    expect(stateOf(after(spend, paid))).toBe('active');
    expect(stateOf(after(paid, spend))).toBe('active');
    const next = alert('warning', 3, { subject: 'alert/a1' });
    expect(stateOf(after(spend, paid, next))).toBe('warning');
  });

  test('a payment of everything due ends all that the customer’s billing system has reported, and no more', () => {
    const unpaid = alert('suspended', 1);
    const spend = alert('warning', 1, { provider: 'metronome', subject: 'alert/a1' });
    const paid = alert('active', 2, { subject: 'customer', settles: 'all' });
    expect(stateOf(after(unpaid, spend, paid))).toBe('warning');
    expect(stateOf(after(paid, unpaid))).toBe('active');
  });

  test('a subscription that ended suspends, unless another one runs: plans change', () => {
    const ended = alert('suspended', 2, { ended: true });
    expect(stateOf(after(ended))).toBe('suspended');
    const next = alert('active', 1, { subject: 'subscription/sub_2' });
    expect(stateOf(after(ended, next))).toBe('active');
    expect(stateOf(after(next, ended))).toBe('active');
    const failing = alert('delinquent', 3, { subject: 'subscription/sub_2' });
    expect(stateOf(after(next, ended, failing))).toBe('delinquent');
    const both = alert('suspended', 3, { subject: 'subscription/sub_2', ended: true });
    expect(stateOf(after(next, ended, both))).toBe('suspended');
  });
});

test('a subscription that has ended stays so: its last invoice, paid or not, brings it not back', () => {
  const ended = alert('suspended', 5, { ended: true });
  const spend = alert('warning', 4, { subject: 'alert/a1' });
  const paid = alert('active', 6, { settles: 'alerts' });
  const failed = alert('delinquent', 6);
  for (const last of [paid, failed]) {
    expect(stateOf(after(ended, last))).toBe('suspended');
    expect(stateOf(after(last, ended))).toBe('suspended');
  }
  const record = after(ended, spend, paid);
  expect(record.entries.find(({ subject }) => subject === 'alert/a1')?.state).toBe('active');
  expect(stateOf(after(ended, alert('active', 7, { subject: 'customer', settles: 'all' })))).toBe(
    'active',
  );
});

describe('a manual state', () => {
  test('wins over every event until it is cleared (accident 40)', () => {
    const hold = { state: 'suspended', reason: 'fraud', at: NOW } as const;
    const held = applyManual(after(alert('delinquent', 1)), hold, NOW);
    const paid = applyAlert(held, alert('active', 2), NOW).record;
    expect(effectiveState(paid)).toStrictEqual({
      state: 'suspended',
      reason: 'fraud',
      source: 'manual',
      eventType: 'manual',
    });
    expect(stateOf(applyManual(paid, undefined, NOW))).toBe('active');
  });

  test('may also be the milder one, and what is known below it is kept', () => {
    const pardon = { state: 'active', reason: 'agreed', at: NOW } as const;
    const pardoned = applyManual(after(alert('suspended', 1)), pardon, NOW);
    expect(stateOf(pardoned)).toBe('active');
    expect(stateOf(applyManual(pardoned, undefined, NOW))).toBe('suspended');
  });

  test('a record with nothing in it need not be kept', () => {
    const held = applyManual(newRecord('a', 1), { state: 'warning', reason: '', at: 1 }, 1);
    expect(isEmpty(held)).toBe(false);
    expect(isEmpty(applyManual(held, undefined, 2))).toBe(true);
  });
});

test('since moves with the effective state only', () => {
  const first = applyAlert(newRecord('a', 5), alert('delinquent', 1), 10).record;
  expect(first.since).toBe(10);
  const again = applyAlert(first, alert('delinquent', 2), 20).record;
  expect(again.since).toBe(10);
  expect(applyAlert(again, alert('active', 3), 30).record.since).toBe(30);
});

test('a record stays small however many invoices there are, and keeps the worst', () => {
  const invoices = Array.from({ length: 1000 }, (_, index) =>
    alert('active', NOW - index, { subject: `invoice/${index}` }),
  );
  const unpaid = alert('suspended', 1, { subject: 'invoice/unpaid' });
  const record = after(unpaid, ...invoices);
  expect(record.entries.length).toBe(200);
  expect(stateOf(record)).toBe('suspended');
});

test('what is in order is forgotten when nobody can repeat what was before it', () => {
  const paid = alert('active', NOW - 36 * DAY, { subject: 'invoice/1' });
  const running = alert('active', NOW - 36 * DAY);
  const next = alert('active', NOW, { subject: 'invoice/2' });
  const subjects = after(paid, running, next).entries.map(({ subject }) => subject);
  expect(subjects.toSorted()).toStrictEqual(['invoice/2', 'subscription/sub_1']);
});

describe('a budget', () => {
  const stated = (state: 'active' | 'warning' | 'suspended') =>
    ({ tenant: 'acme', state, reason: 'the budget of 500.00 EUR is used up' }) as const;

  test('suspends beside billing systems: neither undoes the other, and a person wins', () => {
    const suspended = applyBudget(after(alert('delinquent', NOW - DAY)), stated('suspended'), NOW);
    expect(effectiveState(suspended)).toMatchObject({
      state: 'suspended',
      source: 'budget:limit',
      reason: 'the budget of 500.00 EUR is used up',
    });
    const paid = alert('active', NOW, { settles: 'all', subject: 'customer/cus_1' });
    const settled = applyAlert(suspended, paid, NOW).record;
    expect(stateOf(settled)).toBe('suspended');
    const manual = { state: 'active', reason: 'agreed', at: NOW } as const;
    expect(stateOf(applyManual(suspended, manual, NOW))).toBe('active');
    expect(stateOf(applyBudget(suspended, stated('active'), NOW))).toBe('delinquent');
    const unpaid = applyAlert(settled, alert('suspended', NOW), NOW).record;
    expect(stateOf(applyBudget(unpaid, stated('active'), NOW))).toBe('suspended');
  });

  test('keeps its last report, whatever the clock does, and leaves nothing when it is over', () => {
    const record = applyBudget(newRecord('acme', NOW), stated('suspended'), NOW);
    const earlier = applyBudget(record, stated('warning'), NOW - DAY);
    expect(stateOf(earlier)).toBe('warning');
    const over = applyBudget(earlier, stated('active'), NOW - 2 * DAY);
    expect(stateOf(over)).toBe('active');
    expect(isEmpty(over)).toBe(true);
  });
});
