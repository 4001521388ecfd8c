import type { Logger } from '../../telemetry/logger.ts';
import type { ApiFailure } from '../json-api/answer.ts';
import { textOf } from '../json.ts';
import type { StripeClient } from './stripe-client.ts';

const INVOICES = '/v1/invoices';

/** Drafts and open invoices of a customer, and if Stripe advances them. `unknown`: no right. */
type OpenInvoices =
  | { readonly kind: 'open'; readonly collected: ReadonlyMap<string, boolean> }
  | { readonly kind: 'unknown'; readonly reason: string }
  | (ApiFailure & { readonly kind: 'retry' });

/**
 * Ends one of a customer's subscriptions in favour of another, and resumes the collection of its
 * invoices.
 *
 * Stripe "stops automatic collection of all finalized invoices for the customer" when a
 * subscription is cancelled, since the customer may be leaving
 * (https://docs.stripe.com/api/subscriptions/cancel). This customer stays. Collection goes on for
 * invoices collected before, and for those of the cancellation. It also goes on for drafts: a
 * stopped draft would never become final.
 */
export async function keepCollecting<T extends { readonly kind: string }>(
  {
    name,
    client,
    logger,
  }: {
    readonly name: string;
    readonly client: StripeClient;
    readonly logger: Logger;
  },
  customer: string,
  end: () => Promise<T>,
  signal: AbortSignal,
): Promise<T | (ApiFailure & { readonly kind: 'retry' })> {
  const before = await openInvoices(client, customer, signal);
  if (before.kind === 'retry') return before;
  const outcome = await end();
  if (outcome.kind !== 'ok') return outcome;
  const after = await openInvoices(client, customer, signal);
  const stopped =
    before.kind === 'open' && after.kind === 'open'
      ? [...after.collected].filter(
          ([id, isCollected]) => !isCollected && before.collected.get(id) !== false,
        )
      : [];
  for (const [id] of stopped) {
    const path = `${INVOICES}/${encodeURIComponent(id)}`;
    const resumed = await client.update(path, { auto_advance: true }, signal);
    if (resumed.kind === 'ok') continue;
    logger.error(
      `[${name}] invoice ${id} of ${customer} is not collected any more: ${resumed.reason}`,
    );
  }
  for (const { kind, ...failure } of [before, after]) {
    if (kind === 'open' || !('reason' in failure)) continue;
    logger.error(
      `[${name}] open invoices of ${customer} may not be collected any more: ${failure.reason}`,
    );
    break;
  }
  return outcome;
}

async function openInvoices(
  client: StripeClient,
  customer: string,
  signal: AbortSignal,
): Promise<OpenInvoices> {
  const collected = new Map<string, boolean>();
  for (const status of ['draft', 'open']) {
    const list = await client.list(INVOICES, { customer, status }, signal);
    if (list.kind === 'retry') return list;
    if (list.kind !== 'list') return { kind: 'unknown', reason: list.reason };
    for (const invoice of list.items) {
      collected.set(textOf(invoice, 'id') ?? '', invoice['auto_advance'] === true);
    }
  }
  return { kind: 'open', collected };
}
