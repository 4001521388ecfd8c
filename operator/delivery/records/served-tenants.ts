import type { Ledger } from '../../ledger/ledger.ts';
import { createDeliveryRecords } from './delivery-records.ts';

/**
 * Whether any destination that there is, or was, has provisioned the tenant: then it is a customer there
 * already, and more usage of it makes no new one.
 */
export async function wasServed(ledger: Ledger, tenant: string): Promise<boolean> {
  for (const { destination } of ledger.cursors()) {
    const records = createDeliveryRecords(ledger, destination);
    if ((await records.tenant(tenant)) !== undefined) return true;
  }
  return false;
}
