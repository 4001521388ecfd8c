import type { StepOutcome } from '../destination.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { LagoClient, LagoRefusal, LagoTrouble } from './lago-client.ts';
import { failedStep } from './step.ts';
import { subscriptionIdOf } from './subscriptions.ts';

const MAX_NAME = 255;
const MAX_METADATA_VALUE = 100;

/** What Lago has of a tenant. */
export type ProbeOutcome =
  | { readonly kind: 'subscribed' }
  | { readonly kind: 'no-subscription' }
  | { readonly kind: 'no-customer' }
  | LagoRefusal
  | LagoTrouble;

/**
 * Whether the customer and its subscription are there, by reading its current usage (spec 1.3, rule 2).
 * Only the two answers that say so mean that they are not; nothing is created after any other.
 */
export async function probeTenant(
  client: LagoClient,
  tenant: string,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  // Lago's customer routes take the part behind a dot for a format.
  if (tenant.includes('.')) return probeByList(client, tenant, signal);
  const query = new URLSearchParams({
    external_subscription_id: subscriptionIdOf(tenant),
    apply_taxes: 'false',
  });
  const path = `/customers/${encodeURIComponent(tenant)}/current_usage?${query.toString()}`;
  const answer = await client.get(path, signal);
  if (answer.kind === 'ok') return { kind: 'subscribed' };
  if (answer.kind !== 'refused') return answer;
  if (answer.code === 'customer_not_found') return { kind: 'no-customer' };
  if (answer.code === 'no_active_subscription') return { kind: 'no-subscription' };
  // A tax provider in trouble says that there is something to tax.
  return answer.code === 'tax_error' ? { kind: 'subscribed' } : answer;
}

async function probeByList(
  client: LagoClient,
  tenant: string,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  const externalId = subscriptionIdOf(tenant);
  const query = new URLSearchParams({ external_customer_id: tenant, external_id: externalId });
  const list = await client.list(`/subscriptions?${query.toString()}`, 'subscriptions', signal);
  if (list.kind !== 'list') return list;
  const found = list.items.some((item) => item['external_id'] === externalId);
  return { kind: found ? 'subscribed' : 'no-customer' };
}

/**
 * Creates the customer or brings its name and address up to date. Currency and metadata are given at
 * its creation only: afterwards they belong to whoever runs Lago.
 */
export async function upsertCustomer(
  client: LagoClient,
  tenant: Tenant,
  creation: { readonly currency: string } | undefined,
  signal: AbortSignal,
): Promise<StepOutcome> {
  const basic = {
    external_id: tenant.id,
    name: tenant.displayName.slice(0, MAX_NAME),
    ...(tenant.email !== undefined && { email: tenant.email }),
  };
  const extras = creation === undefined ? [] : [metadataOf(tenant), creation];
  for (;;) {
    const customer = Object.assign({}, basic, ...extras);
    const answer = await client.call('POST', '/customers', { customer }, signal);
    if (answer.kind === 'ok') return { kind: 'done' };
    const refusedExtra = answer.kind === 'refused' && answer.status === 422;
    // What is only nice to have must not cost the tenant its customer: metadata goes first.
    if (!refusedExtra || extras.length === 0) return failedStep(answer);
    extras.shift();
  }
}

function metadataOf(tenant: Tenant): { readonly metadata: readonly unknown[] } {
  const values = {
    project: tenant.project,
    tenant_class: tenant.tenantClass,
    region: tenant.region,
    cost_center: tenant.costCenter,
  };
  const metadata = Object.entries(values).flatMap(([key, value]) =>
    value === undefined || value === ''
      ? []
      : [{ key, value: value.slice(0, MAX_METADATA_VALUE), display_in_invoice: false }],
  );
  return { metadata };
}
