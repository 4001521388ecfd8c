import { isRecord } from '../../model/is-record.ts';
import type { Tenant } from '../../model/tenant.ts';
import { quote } from '../../model/validate-event.ts';
import type { CustomerAnswer } from '../destination.ts';
import type { FailedStep } from '../failed-step.ts';
import { type ApiProblem, failedStep } from '../json-api/answer.ts';
import { type JsonObject, objectOf, textOf, textsOf } from '../json.ts';
import type { MetronomeClient } from './metronome-client.ts';

/** Metronome cuts longer names, and they would then differ for ever. */
const MAX_NAME = 160;

export type MetronomeCustomerOutcome =
  | { readonly kind: 'customer'; readonly id: string }
  | FailedStep;

type CustomerSearch =
  | { readonly kind: 'found'; readonly customer: MetronomeCustomer }
  | { readonly kind: 'none' }
  | ApiProblem;

interface MetronomeCustomer {
  readonly id: string;
  readonly name: string;
  readonly aliases: readonly string[];
}

/** Finds a tenant's customer by its ingest alias, the tenant's id. Creates nothing. */
export async function findCustomer(
  client: MetronomeClient,
  tenant: string,
  signal: AbortSignal,
): Promise<CustomerSearch> {
  return findByAlias(client, new URLSearchParams({ ingest_alias: tenant }), signal);
}

/**
 * Finds or creates the tenant's customer: the named one, else the one with its alias, else a new
 * one. If another process takes the alias in the meantime, its customer is adopted.
 */
export async function ensureCustomer(
  client: MetronomeClient,
  tenant: Tenant,
  signal: AbortSignal,
): Promise<MetronomeCustomerOutcome> {
  if (tenant.customerIds?.['metronome'] !== undefined) {
    return pinnedCustomer(client, tenant, tenant.customerIds?.['metronome'], signal);
  }
  const found = await findCustomer(client, tenant.id, signal);
  if (found.kind === 'found') return rename(client, found.customer, tenant, signal);
  if (found.kind !== 'none') return failedStep(found);
  const body = { name: nameOf(tenant), ingest_aliases: [tenant.id] };
  const answer = await client.create('/v1/customers', body, signal);
  if (answer.kind === 'ok') {
    const id = textOf(objectOf(answer.body, 'data'), 'id');
    if (id === undefined) return { kind: 'retry', reason: 'the answer has no customer' };
    return { kind: 'customer', id };
  }
  if (answer.kind !== 'refused' || answer.status !== 409) return failedStep(answer);
  return afterConflict(client, tenant, signal);
}

/** Finds the customer that took the alias: created in the meantime, or archived. */
async function afterConflict(
  client: MetronomeClient,
  tenant: Tenant,
  signal: AbortSignal,
): Promise<MetronomeCustomerOutcome> {
  const again = await findCustomer(client, tenant.id, signal);
  if (again.kind === 'found') return { kind: 'customer', id: again.customer.id };
  if (again.kind !== 'none') return failedStep(again);
  const query = new URLSearchParams({ ingest_alias: tenant.id, only_archived: 'true' });
  const archived = await findByAlias(client, query, signal);
  if (archived.kind === 'found') {
    const reason = `an archived customer still has the ingest alias: take it from customer ${archived.customer.id} in Metronome: alias: ${quote(tenant.id)}`;
    return { kind: 'rejected', reason };
  }
  if (archived.kind !== 'none') return failedStep(archived);
  return {
    kind: 'retry',
    reason: `the ingest alias belongs to a customer that is not listed yet: ${quote(tenant.id)}`,
  };
}

/** Uses the customer that a tenant names. It gets the alias and keeps its name. */
async function pinnedCustomer(
  client: MetronomeClient,
  tenant: Tenant,
  id: string,
  signal: AbortSignal,
): Promise<MetronomeCustomerOutcome> {
  const answer = await client.get(`/v1/customers/${encodeURIComponent(id)}`, signal);
  if (answer.kind === 'refused') {
    const reason = `no such customer in Metronome: metronome-customer-id: ${quote(id)}: ${answer.reason}`;
    return { kind: 'rejected', reason };
  }
  if (answer.kind !== 'ok') return answer;
  const { data } = answer.body;
  if (!isRecord(data)) return { kind: 'retry', reason: 'the answer has no customer' };
  if (textOf(data, 'archived_at') !== undefined) {
    return {
      kind: 'rejected',
      reason: `archived in Metronome: metronome-customer-id: ${quote(id)}`,
    };
  }
  const customer = readCustomer(data);
  if (customer.aliases.includes(tenant.id)) return { kind: 'customer', id: customer.id };
  const ingest_aliases = [...customer.aliases, tenant.id];
  const path = `/v1/customers/${encodeURIComponent(id)}/setIngestAliases`;
  const changed = await client.post(path, { ingest_aliases }, signal);
  if (changed.kind !== 'ok') return failedStep(changed);
  return { kind: 'customer', id: customer.id };
}

async function rename(
  client: MetronomeClient,
  customer: MetronomeCustomer,
  tenant: Tenant,
  signal: AbortSignal,
): Promise<MetronomeCustomerOutcome> {
  const name = nameOf(tenant);
  if (customer.name !== name) {
    const path = `/v1/customers/${encodeURIComponent(customer.id)}/setName`;
    const answer = await client.post(path, { name }, signal);
    if (answer.kind !== 'ok') return failedStep(answer);
  }
  return { kind: 'customer', id: customer.id };
}

async function findByAlias(
  client: MetronomeClient,
  query: URLSearchParams,
  signal: AbortSignal,
): Promise<CustomerSearch> {
  const alias = query.get('ingest_alias') ?? '';
  const list = await client.list(`/v1/customers?${query.toString()}`, undefined, signal);
  if (list.kind !== 'list') return list;
  const wantsArchived = query.has('only_archived');
  const item = list.items.find(
    (one) =>
      readCustomer(one).aliases.includes(alias) &&
      (textOf(one, 'archived_at') !== undefined) === wantsArchived,
  );
  return item === undefined ? { kind: 'none' } : { kind: 'found', customer: readCustomer(item) };
}

function readCustomer(object: JsonObject): MetronomeCustomer {
  return {
    id: textOf(object, 'id') ?? '',
    name: textOf(object, 'name') ?? '',
    aliases: textsOf(object, 'ingest_aliases'),
  };
}

function nameOf({ id, displayName }: Tenant): string {
  return (displayName.trim() === '' ? id : displayName).slice(0, MAX_NAME);
}

/** Returns tenants that a customer may stand for: its ingest aliases, perhaps not all ours. */
export async function tenantsOfMetronomeCustomer(
  client: MetronomeClient,
  customer: string,
  signal: AbortSignal,
): Promise<CustomerAnswer> {
  const answer = await client.get(`/v1/customers/${encodeURIComponent(customer)}`, signal);
  if (answer.kind === 'refused') return { kind: 'unknown' };
  if (answer.kind !== 'ok') return { kind: 'failed', reason: answer.reason };
  const tenants = textsOf(objectOf(answer.body, 'data'), 'ingest_aliases');
  return tenants.length === 0 ? { kind: 'unknown' } : { kind: 'tenants', tenants, certain: false };
}
