import type { DestinationSettings } from '../../config/settings.ts';
import type { Destination } from '../../destinations/destination.ts';
import type { TenantDirectory } from '../lanes/tenant-directory.ts';
import {
  createInvoiceReconcile,
  type InvoiceReconcile,
  type InvoiceReconcileOptions,
} from '../operations/invoice-reconcile.ts';

interface InvoicesOfOptions extends Pick<InvoiceReconcileOptions, 'ledger' | 'clock'> {
  readonly settings: Pick<DestinationSettings, 'name' | 'type'>;
  readonly destination: Destination;
}

type InvoiceParts = Pick<
  InvoiceReconcileOptions,
  'records' | 'deadLetters' | 'wants' | 'changes' | 'recheck'
> & { readonly directory: Pick<TenantDirectory, 'find'> };

/** Holds the destination's invoices against what it was given; undefined where it tells of none. */
export function invoicesOf(
  { settings, destination, ledger, clock }: InvoicesOfOptions,
  { records, deadLetters, wants, directory, changes, recheck }: InvoiceParts,
  cursor: () => number,
): InvoiceReconcile | undefined {
  if (destination.invoices === undefined) return undefined;
  return createInvoiceReconcile({
    name: settings.name,
    type: settings.type,
    invoices: async (query, signal) =>
      (await destination.invoices?.(query, signal)) ?? {
        kind: 'unsupported',
        reason: 'no invoices',
      },
    unpriced: () => destination.unpriced?.() ?? [],
    ledger,
    records,
    deadLetters,
    wants,
    cursor,
    changes,
    recheck,
    clock,
    describe: (tenant) => directory.find(tenant),
  });
}
