import type { LagoSettings } from '../../config/settings.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { quote } from '../../model/validate-event.ts';
import type { StepOutcome } from '../destination.ts';
import type { Tenant } from '../../model/tenant.ts';
import { probeTenant, upsertCustomer } from './customers.ts';
import type { LagoClient } from './lago-client.ts';
import type { LagoPlans } from './plans.ts';
import { failedStep } from './step.ts';
import {
  type ActiveSubscriptions,
  readSubscription,
  subscriptionIdOf,
  subscriptionOf,
} from './subscriptions.ts';

export interface ProvisionOptions {
  readonly name: string;
  readonly settings: LagoSettings;
  readonly client: LagoClient;
  readonly plans: LagoPlans;
  readonly subscriptions: ActiveSubscriptions;
  readonly logger: Logger;
}

/** Makes sure of a tenant's customer and subscription (spec 1.3, rules 1 and 2). */
export function createProvision(options: ProvisionOptions) {
  const { name, settings, client, plans, subscriptions, logger } = options;

  const subscribe = async (
    tenant: Tenant,
    planCode: string,
    signal: AbortSignal,
  ): Promise<StepOutcome> => {
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
    return { kind: 'done' };
  };

  /** Reuses the subscription; a plan that the tenant names itself is followed. */
  const reuse = async (tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> => {
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
      return { kind: 'done' };
    }
    const subscription = {
      external_customer_id: tenant.id,
      plan_code: plan,
      external_id: externalId,
    };
    const answer = await client.call('POST', '/subscriptions', { subscription }, signal);
    if (answer.kind !== 'ok') return failedStep(answer);
    logger.info(`[${name}] tenant ${tenant.id} changed from plan ${existing.planCode} to ${plan}`);
    return { kind: 'done' };
  };

  return async (tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> => {
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
      ? reuse(tenant, signal)
      : subscribe(tenant, planCode, signal);
  };
}
