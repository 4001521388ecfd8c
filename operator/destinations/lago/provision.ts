import { omitUndefined } from '../../model/omit-undefined.ts';
import type { Tenant } from '../../model/tenant.ts';
import { quote } from '../../model/validate-event.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { StepOutcome } from '../destination.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { failedStep, type LagoClient } from './lago-client.ts';
import type { LagoPlans } from './plans.ts';
import type { LagoSettings } from './settings.ts';
import {
  type ActiveSubscriptions,
  readSubscription,
  subscriptionIdOf,
  subscriptionOf,
} from './subscriptions.ts';

const MAX_NAME = 255;
const MAX_METADATA_VALUE = 100;
const DONE: StepOutcome = { kind: 'done' };

export interface LagoProvisionerOptions {
  readonly name: string;
  readonly settings: LagoSettings;
  readonly client: LagoClient;
  readonly plans: LagoPlans;
  readonly subscriptions: ActiveSubscriptions;
  readonly logger: Logger;
}

/** Makes sure of a tenant's customer and subscription (docs/destinations/lago.md#tenants). */
export class LagoProvisioner {
  readonly #options: LagoProvisionerOptions;

  constructor(options: LagoProvisionerOptions) {
    this.#options = options;
  }

  async provision(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    const { settings, client, plans } = this.#options;
    const planCode = tenant.plan ?? settings.planCode;
    const found = await plans.find(planCode, signal);
    if (found.kind === 'missing') {
      return { kind: 'rejected', reason: `no such plan in Lago: plan: ${quote(planCode)}` };
    }
    if (found.kind !== 'plan') return failedStep(found);
    const currency = tenant.currency ?? settings.currency;
    if (currency !== found.plan.currency) {
      const priced = `plan ${quote(planCode)} is priced in ${found.plan.currency}`;
      return { kind: 'rejected', reason: `${priced}: currency: ${quote(currency)}` };
    }
    const probed = await probeTenant(client, tenant.id, signal);
    if (probed.kind === 'retry' || probed.kind === 'hold' || probed.kind === 'refused') {
      return failedStep(probed);
    }
    const creation = probed.kind === 'no-customer' ? { currency } : undefined;
    const customer = await upsertCustomer(client, tenant, creation, signal);
    if (customer.kind !== 'done') return customer;
    return probed.kind === 'subscribed'
      ? this.#reuse(tenant, signal)
      : this.#subscribe(tenant, planCode, signal);
  }

  async #subscribe(tenant: Tenant, planCode: string, signal: AbortSignal): Promise<StepOutcome> {
    const { name, client, subscriptions, logger } = this.#options;
    const from = tenant.billableFrom ?? tenant.createdAt;
    const subscription = {
      external_customer_id: tenant.id,
      plan_code: planCode,
      external_id: subscriptionIdOf(tenant.id),
      billing_time: 'calendar',
      subscription_at: new Date(from).toISOString(),
    };
    const answer = await client.call('POST', '/subscriptions', { subscription }, signal);
    if (answer.kind !== 'ok') return failedStep(answer);
    const created = subscriptionOf(answer.body);
    if (created === undefined) return { kind: 'retry', reason: 'no subscription in the answer' };
    subscriptions.add(created);
    logger.info(`[${name}] subscribed tenant ${tenant.id} to plan ${planCode}`);
    if (created.startedAt > from) {
      const start = new Date(created.startedAt).toISOString();
      logger.warn(`[${name}] tenant ${tenant.id}: Lago bills nothing before ${start}`);
    }
    return DONE;
  }

  /** Reuses the subscription; a plan that the tenant names itself is followed. */
  async #reuse(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    const { name, client, subscriptions, logger } = this.#options;
    const externalId = subscriptionIdOf(tenant.id);
    const query = new URLSearchParams({ external_customer_id: tenant.id });
    const list = await client.list(`/subscriptions?${query.toString()}`, 'subscriptions', signal);
    if (list.kind !== 'list') return failedStep(list);
    const existing = list.items
      .map(readSubscription)
      .find((subscription) => subscription.externalId === externalId);
    if (existing === undefined) {
      return { kind: 'retry', reason: `subscription is not listed: "${externalId}"` };
    }
    subscriptions.add(existing);
    logger.info(`[${name}] subscription ${externalId} already exists, reused`);
    const { plan } = tenant;
    if (plan === undefined || plan === existing.planCode || plan === existing.nextPlanCode) {
      return DONE;
    }
    const subscription = {
      external_customer_id: tenant.id,
      plan_code: plan,
      external_id: externalId,
    };
    const answer = await client.call('POST', '/subscriptions', { subscription }, signal);
    if (answer.kind !== 'ok') return failedStep(answer);
    logger.info(`[${name}] tenant ${tenant.id} changed from plan ${existing.planCode} to ${plan}`);
    return DONE;
  }
}

/** What Lago has of a tenant. */
export type ProbeOutcome =
  | { readonly kind: 'subscribed' }
  | { readonly kind: 'no-subscription' }
  | { readonly kind: 'no-customer' }
  | ApiProblem;

/**
 * Whether the customer and its subscription are there, by reading its current usage.
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
    ...omitUndefined({ email: tenant.email }),
  };
  const extras = creation === undefined ? [] : [metadataOf(tenant), creation];
  for (;;) {
    const customer = Object.assign({}, basic, ...extras);
    const answer = await client.call('POST', '/customers', { customer }, signal);
    if (answer.kind === 'ok') return DONE;
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
