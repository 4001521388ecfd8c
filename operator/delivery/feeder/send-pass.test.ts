import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { DeliveryOutcome } from '../../destinations/destination.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import type { UsageEvent } from '../../model/event.ts';
import { sendBatch } from './send-pass.ts';

const { signal } = new AbortController();

function events(count: number): UsageEvent[] {
  return Array.from({ length: count }, (_, index) => testEvent({ id: `e${index}` }));
}

test('bisecting finds exactly the events at fault, in few calls, and sends no other twice', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 200 }),
      fc.array(fc.nat(199), { maxLength: 3 }),
      async (count, faults) => {
        const bad = new Set(faults.filter((index) => index < count).map((index) => `e${index}`));
        const accepted: string[] = [];
        let calls = 0;
        const send = async (batch: readonly UsageEvent[]): Promise<DeliveryOutcome[]> => {
          calls += 1;
          if (batch.some(({ id }) => bad.has(id))) {
            return batch.map(() => ({ kind: 'split', reason: 'status 400' }));
          }
          accepted.push(...batch.map(({ id }) => id));
          return batch.map(() => ({ kind: 'delivered' }));
        };
        const { answers, blocked } = await sendBatch({ send }, events(count), signal);
        expect(blocked).toBeUndefined();
        expect(answers.size).toBe(count);
        for (const [index, { kind }] of answers) {
          expect(kind).toBe(bad.has(`e${index}`) ? 'rejected' : 'delivered');
        }
        expect(accepted).toHaveLength(count - bad.size);
        expect(new Set(accepted).size).toBe(accepted.length);
        expect(calls).toBeLessThanOrEqual(1 + 2 * bad.size * Math.ceil(Math.log2(count + 1)));
      },
    ),
  );
});

describe('an answer that is not whole', () => {
  test('leaves the events without an outcome to be tried again', async () => {
    const send = async (): Promise<DeliveryOutcome[]> => [{ kind: 'delivered' }];
    const report = await sendBatch({ send }, events(2), signal);
    expect([...report.answers.keys()]).toStrictEqual([0]);
    expect(report.blocked).toMatchObject({ kind: 'retry' });
  });

  test('with a hold and a retry in it is a hold', async () => {
    const send = async (): Promise<DeliveryOutcome[]> => [
      { kind: 'retry', reason: 'status 503', afterMs: 1 },
      { kind: 'blocked', reason: 'status 401' },
    ];
    const report = await sendBatch({ send }, events(2), signal);
    expect(report.blocked).toStrictEqual({ kind: 'blocked', reason: 'status 401' });
  });

  test('in the middle of bisecting stops there, and keeps what is settled', async () => {
    let calls = 0;
    const send = async (batch: readonly UsageEvent[]): Promise<DeliveryOutcome[]> => {
      calls += 1;
      if (calls === 1) return batch.map(() => ({ kind: 'split', reason: 'status 400' }));
      if (calls === 2) return batch.map(() => ({ kind: 'delivered' }));
      return batch.map(() => ({ kind: 'retry', reason: 'status 503' }));
    };
    const report = await sendBatch({ send }, events(4), signal);
    expect([...report.answers.keys()]).toStrictEqual([0, 1]);
    expect(report.blocked?.reason).toBe('status 503');
  });
});
