import { Secret } from '../../operator/model/secret.ts';
import { startWebhookReceiver } from '../faults/vendors/webhook-receiver.ts';
import type { MonthVendor } from './vendors.ts';

/** A webhook receiver, which makes no invoices: it has what it was sent. */
export async function startReceiver(): Promise<MonthVendor> {
  const receiver = await startWebhookReceiver({});
  const done = async (): Promise<void> => undefined;
  return {
    url: receiver.url,
    settings: {
      type: 'webhook',
      options: {
        url: `${receiver.url}/hook`,
        secrets: [new Secret('whsec_months')],
        headers: new Map(),
        source: 'months',
      },
    },
    turnTo: () => undefined,
    account: () => ({ invoices: [], events: [] }),
    taken: () => receiver.billed().map(({ id }) => id),
    lateLines: () => [],
    label: ({ id }) => id,
    prepare: done,
    price: done,
    close: () => receiver.close(),
  };
}
