import type { Ledger } from '../../ledger/ledger.ts';
import { createDeliveryRecords } from './delivery-records.ts';

/**
 * Returns whether any present or former destination has provisioned the tenant. More usage of such
 * a tenant creates no new customer.
 */
export async function wasServed(ledger: Ledger, tenant: string): Promise<boolean> {
  for (const { destination } of ledger.cursors()) {
    const records = createDeliveryRecords(ledger, destination);
    if ((await records.tenant(tenant)) !== undefined) return true;
  }
  return false;
}
