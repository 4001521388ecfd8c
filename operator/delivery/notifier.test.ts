import { expect, test } from 'vitest';
import type { Destination, StepOutcome } from '../destinations/destination.ts';
import { createManualClock } from '../kubernetes/testing/manual-clock.ts';
import type { BudgetNotice } from '../model/budget-notice.ts';
import { Notifier } from './notifier.ts';
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

test('one that is down costs nobody else a notice, is left alone for a while, and is notified then', async () => {
  const clock = createManualClock(0);
  const notifier = new Notifier({ clock, random: () => 0.5 });
  const answers: { value: StepOutcome } = {
    value: { kind: 'retry', reason: 'status 503', afterMs: 5_000 },
  };
  const [up, down] = [
    receiver('up', () => ({ kind: 'done' })),
    receiver('down', () => answers.value),
  ];
  const report = (notified: readonly string[] = []) =>
    notifier.notify([up, down], NOTICE, new Set(notified));
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
