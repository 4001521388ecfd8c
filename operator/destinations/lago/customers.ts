import type { BillingDetails, Tenant } from '../../model/tenant.ts';
import { quote } from '../../model/quote.ts';
import type { FailedStep } from '../failed-step.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, textOf } from '../json.ts';
import { failedStep, type LagoClient } from './lago-client.ts';

const MAX_NAME = 255;
const MAX_METADATA_VALUE = 100;

/** External ids of customer and subscription (docs/how-to/destinations/lago.md#tenants). */
export interface LagoIds {
  readonly customer: string;
  readonly subscription: string;
  /** The tenant names the customer, so the operator does not change it. */
  readonly customerIsNamed: boolean;
  /** The tenant names the subscription, so the operator neither creates nor changes nor ends it. */
  readonly subscriptionIsNamed: boolean;
}

export function idsOf({ id, customerIds, subscriptionIds }: Tenant): LagoIds {
  const customer = customerIds?.['lago'];
  const subscription = subscriptionIds?.['lago'];
  return {
    customer: customer ?? id,
    subscription: subscription ?? subscriptionIdOf(id),
    customerIsNamed: customer !== undefined,
    subscriptionIsNamed: subscription !== undefined,
  };
}

/** Returns the external id of the subscription of a tenant that names none. */
export function subscriptionIdOf(tenant: string): string {
  return `sub-${tenant}`;
}

/** A customer at Lago, with the fields that decide when usage is billed. */
export interface LagoCustomer {
  /** The time zone in which its periods begin. */
  readonly zone: string;
  /** Days for which its invoices stay drafts; undefined where the billing entity's days apply. */
  readonly graceDays: number | undefined;
  readonly billingEntity: string | undefined;
}

/** Stands for a customer about which nothing is known. */
export const ANY_CUSTOMER: LagoCustomer = {
  zone: 'UTC',
  graceDays: undefined,
  billingEntity: undefined,
};

export type LagoCustomerOutcome =
  | { readonly kind: 'customer'; readonly customer: LagoCustomer }
  | FailedStep;

/** What Lago has for a tenant. */
export type ProbeOutcome =
  | { readonly kind: 'subscribed' }
  | { readonly kind: 'no-subscription' }
  | { readonly kind: 'no-customer' }
  | ApiProblem;

/**
 * Returns whether the customer and its subscription exist, by reading its current usage. Only two
 * answers prove that they do not; after any other answer nothing is created.
 */
export async function probeTenant(
  client: LagoClient,
  ids: LagoIds,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  // Lago's customer routes treat text behind a dot as a format.
  if (ids.customer.includes('.')) return probeByList(client, ids, signal);
  const query = new URLSearchParams({
    external_subscription_id: ids.subscription,
    apply_taxes: 'false',
  });
  const path = `/customers/${encodeURIComponent(ids.customer)}/current_usage?${query.toString()}`;
  const answer = await client.get(path, signal);
  if (answer.kind === 'ok') return { kind: 'subscribed' };
  if (answer.kind !== 'refused') return answer;
  if (answer.code === 'customer_not_found') return { kind: 'no-customer' };
  if (answer.code === 'no_active_subscription') return { kind: 'no-subscription' };
  // An error of the tax provider proves that there is usage to tax, so the subscription exists.
  return answer.code === 'tax_error' ? { kind: 'subscribed' } : answer;
}

async function probeByList(
  client: LagoClient,
  { customer, subscription }: LagoIds,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  const query = new URLSearchParams({
    external_customer_id: customer,
    external_id: subscription,
  });
  const list = await client.list(`/subscriptions?${query.toString()}`, 'subscriptions', signal);
  if (list.kind !== 'list') return list;
  const found = list.items.some((item) => item['external_id'] === subscription);
  return { kind: found ? 'subscribed' : 'no-customer' };
}

/**
 * Creates the customer, or updates its name and details. Currency and metadata are set only at
 * creation: afterwards they belong to the people who run Lago. A customer that the tenant names is
 * not changed.
 */
export async function ensureCustomer(
  client: LagoClient,
  tenant: Tenant,
  creation: { readonly currency: string } | undefined,
  signal: AbortSignal,
): Promise<LagoCustomerOutcome> {
  const { customer: id, customerIsNamed } = idsOf(tenant);
  if (customerIsNamed) return findNamed(client, id, signal);
  const basic = {
    external_id: id,
    name: tenant.displayName.slice(0, MAX_NAME),
    email: tenant.email,
    ...detailsOf(tenant.billing),
  };
  const extras = creation === undefined ? [] : [metadataOf(tenant), creation];
  for (;;) {
    const customer = Object.assign({}, basic, ...extras);
    const answer = await client.call('POST', '/customers', { customer }, signal);
    if (answer.kind === 'ok') return found(answer.body);
    const refusedExtra = answer.kind === 'refused' && answer.status === 422;
    // Optional details must not prevent the customer: drop metadata first.
    if (!refusedExtra || extras.length === 0) return failedStep(answer);
    extras.shift();
  }
}

/** Returns only the given details, so that entries made at Lago stay. */
function detailsOf({ address = {}, taxId, timeZone, netTermsDays }: BillingDetails = {}) {
  return {
    address_line1: address.line1,
    address_line2: address.line2,
    city: address.city,
    state: address.state,
    zipcode: address.postalCode,
    country: address.country,
    tax_identification_number: taxId,
    timezone: timeZone,
    net_payment_term: netTermsDays,
  };
}

async function findNamed(
  client: LagoClient,
  id: string,
  signal: AbortSignal,
): Promise<LagoCustomerOutcome> {
  const answer = await client.get(`/customers/${encodeURIComponent(id)}`, signal);
  if (answer.kind === 'ok') return found(answer.body);
  const isMissing = answer.kind === 'refused' && answer.code === 'customer_not_found';
  if (!isMissing) return failedStep(answer);
  const reason = `no such customer in Lago: lago-customer-id: ${quote(id)}`;
  return { kind: 'rejected', reason };
}

function found(body: JsonObject): LagoCustomerOutcome {
  const object = objectOf(body, 'customer');
  const zone = textOf(object, 'applicable_timezone') ?? textOf(object, 'timezone') ?? 'UTC';
  const grace = objectOf(object, 'billing_configuration')['invoice_grace_period'];
  const customer = {
    zone,
    graceDays: typeof grace === 'number' ? grace : undefined,
    billingEntity: textOf(object, 'billing_entity_code'),
  };
  return { kind: 'customer', customer };
}

/** Returns the days for which a customer's invoices stay drafts; 0 where Lago reports none. */
export async function graceDaysOf(
  client: LagoClient,
  { graceDays, billingEntity }: LagoCustomer,
  signal: AbortSignal,
): Promise<number> {
  if (graceDays !== undefined) return graceDays;
  if (billingEntity === undefined) return 0;
  const answer = await client.get(`/billing_entities/${encodeURIComponent(billingEntity)}`, signal);
  if (answer.kind !== 'ok') return 0;
  return Number(objectOf(answer.body, 'billing_entity')['invoice_grace_period'] ?? 0) || 0;
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
