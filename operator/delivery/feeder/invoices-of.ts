import { createInvoiceReconcile, type InvoiceReconcile } from '../operations/invoice-reconcile.ts';
import type { FeederOptions, FeederParts } from './feeder-parts.ts';

/** Holds the destination's invoices against what it was given; undefined where it tells of none. */
export function invoicesOf(
  { settings, destination, ledger, clock }: FeederOptions,
  { records, deadLetters, wants, directory, changes }: FeederParts,
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
    clock,
    describe: (tenant) => directory.find(tenant),
  });
}
