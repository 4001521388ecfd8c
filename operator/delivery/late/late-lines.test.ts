import { expect, test } from 'vitest';
import { testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { createDeliveryRecords } from '../records/delivery-records.ts';
import { LateLines } from './late-lines.ts';

const PRICE = { key: 'cpu', each: '0.5', currency: 'EUR', invoice: 'in_1' };

test.each([
  { mayAppend: true, events: 2 },
  { mayAppend: false, events: 1 },
])(
  'a line that was billed is on record for good, and noted in a ledger that takes events ($mayAppend)',
  async ({ mayAppend, events }) => {
    const ledger = createMemoryLedger();
    const event = testEvent();
    await ledger.append({ events: [event] });
    const records = createDeliveryRecords(ledger, 'lago');
    const lines = new LateLines({ name: 'lago', ledger, records, clock: systemClock, mayAppend });
    await lines.add([{ sequence: 1, event, price: PRICE, way: 'next' }]);
    const [line] = lines.waiting();
    if (line === undefined) throw new Error('no line');
    expect(await lines.billed(line, 'fee_1')).toBeUndefined();
    expect(ledger.head()).toBe(events);
    const restarted = new LateLines({
      name: 'lago',
      ledger,
      records,
      clock: systemClock,
      mayAppend,
    });
    await restarted.load();
    expect([restarted.has(1), restarted.waiting()]).toEqual([true, []]);
  },
);
