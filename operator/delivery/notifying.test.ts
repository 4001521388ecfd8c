import { expect, test } from 'vitest';
import type { Destination, StepOutcome } from '../destinations/destination.ts';
import { createManualClock } from '../kubernetes/testing/manual-clock.ts';
import type { BudgetNotice } from '../model/budget-notice.ts';
import { Notifying } from './notifying.ts';
import { createFakeDestination } from './testing/fake-destination.ts';

const NOTICE: BudgetNotice = {
  id: 'a',
  tenant: 'acme',
  percent: 80,
  amount: '5',
  period: 'prepaid',
  at: 0,
  counts: { kind: 'money', currency: 'EUR' },
};

interface Receiver extends Destination {
  calls: number;
}

function receiver(name: string, answer: () => StepOutcome): Receiver {
  const made: Receiver = {
    ...createFakeDestination({ name }),
    calls: 0,
    notices: {
      notify: async () => {
        made.calls += 1;
        return answer();
      },
    },
  };
  return made;
}

test('one that is down costs nobody else a notice, is left alone for a while, and is told then', async () => {
  const clock = createManualClock(0);
  const notifying = new Notifying({ clock, random: () => 0.5 });
  const answers: { value: StepOutcome } = {
    value: { kind: 'retry', reason: 'status 503', afterMs: 5_000 },
  };
  const [up, down] = [
    receiver('up', () => ({ kind: 'done' })),
    receiver('down', () => answers.value),
  ];
  const report = (reported: readonly string[] = []) =>
    notifying.notify([up, down], NOTICE, new Set(reported));
  const half = { notified: ['up'], waiting: ['down: status 503'] };
  expect(await report()).toStrictEqual(half);
  await clock.advance(4_999);
  expect(await report(['up'])).toStrictEqual(half);
  expect([up.calls, down.calls]).toStrictEqual([1, 1]);
  answers.value = { kind: 'done' };
  await clock.advance(1);
  expect(await report(['up'])).toStrictEqual({ notified: ['up', 'down'], waiting: [] });
  expect([up.calls, down.calls]).toStrictEqual([1, 2]);
});
