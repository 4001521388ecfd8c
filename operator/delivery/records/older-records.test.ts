import { expect, test } from 'vitest';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { createInvoiceRecords } from '../operations/invoice-records.ts';
import { createDeliveryRecords } from './delivery-records.ts';

test('a change of plan that waited during an upgrade begins again', async () => {
  const ledger = createMemoryLedger();
  const value =
    '{"tenant":"acme","pending":{"before":1000,"askedAt":900,"mode":"period-end","current":"a","wanted":"b","wish":"b","drainedTo":7,"late":[[3,3]]},"made":[]}';
  await ledger.writeRecords([{ key: 'delivery/main/change/acme', value }]);
  const changes = createDeliveryRecords(ledger, 'main').changes();
  expect(await Array.fromAsync(changes)).toStrictEqual([
    {
      tenant: 'acme',
      pending: {
        before: 1000,
        requestedAt: 900,
        mode: 'period-end',
        current: 'a',
        wanted: 'b',
        wish: 'b',
        drainedTo: 7,
        late: [[3, 3]],
      },
      made: [],
    },
  ]);
});

test('invoices are compared with less usage after an upgrade', async () => {
  const ledger = createMemoryLedger();
  const value = '{"type":"lago","position":12,"begunAt":3,"begunWhole":true}';
  const key = 'delivery/main/invoices/state';
  const records = createInvoiceRecords(ledger, 'main');
  expect(await records.state()).toBeUndefined();
  await ledger.writeRecords([{ key, value }]);
  expect(await records.state()).toStrictEqual({
    type: 'lago',
    position: 12,
    begunAt: 3,
    begunComplete: true,
  });
});
