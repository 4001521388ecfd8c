import type { BillingDetails, Tenant } from '../../model/tenant.ts';
import { quote } from '../../model/validate-event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { CustomerAnswer } from '../destination.ts';
import type { FailedStep } from '../failed-step.ts';
import { type ApiAnswer, type ApiProblem, failedStep } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import type { StripeClient } from './stripe-client.ts';
import { StripeTaxIds } from './tax-ids.ts';

const CUSTOMERS = '/v1/customers';
/** The metadata key of customers and subscriptions with their tenant's id. */
export const TENANT_KEY = 'vbilling_tenant_id';
const MAX_NAME = 256;
const MAX_METADATA_VALUE = 500;
/**
 * How far back the list of new customers reaches. It is longer than the lag of Stripe's search
 * index (an hour in bad times), and longer than Stripe remembers idempotency keys.
 */
const RECENT_MS = 90_000_000;
/** The bound of successive creations that return a customer who is deleted by now. */
const MAX_REPEATS = 5;

export type StripeCustomerOutcome = { readonly kind: 'customer'; readonly id: string } | FailedStep;

interface FoundCustomer {
  readonly id: string;
  readonly object: JsonObject;
}

type Lookup = FoundCustomer | undefined | ApiProblem;

/**
 * Finds or creates the customer of each tenant.
 *
 * It finds a customer by its metadata: by search, and in the list of new customers, since the
 * search index lags behind. A customer whose creation had a lost answer is therefore not created
 * twice.
 */
export class StripeCustomers {
  readonly #client: StripeClient;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #taxIds: StripeTaxIds;
  readonly #ids = new Map<string, string>();
  /** Tenants whose customer must be looked up again before usage goes to it. */
  readonly #doubted = new Set<string>();
  /** Customers too new for the search, by tenant; undefined when they must be listed. */
  #recent: Map<string, FoundCustomer> | undefined;
  #searchable = true;

  constructor(client: StripeClient, clock: Clock, logger: Logger) {
    this.#client = client;
    this.#clock = clock;
    this.#logger = logger;
    this.#taxIds = new StripeTaxIds(client, logger);
  }

  /** Finds or creates the tenant's customer; updates name, address, tax number and metadata. */
  async ensure(tenant: Tenant, signal: AbortSignal): Promise<StripeCustomerOutcome> {
    const outcome = await this.#ensure(tenant, signal);
    if (outcome.kind === 'customer') this.#doubted.delete(tenant.id);
    return outcome;
  }

  async #ensure(tenant: Tenant, signal: AbortSignal): Promise<StripeCustomerOutcome> {
    const named = tenant.customerIds?.['stripe'];
    if (named !== undefined) return this.#useNamed(tenant, named, signal);
    const outcome = await this.#ensureOwn(tenant, signal);
    if (outcome.kind !== 'customer') return outcome;
    return (await this.#taxIds.ensure(tenant, outcome.id, signal)) ?? outcome;
  }

  async #ensureOwn(tenant: Tenant, signal: AbortSignal): Promise<StripeCustomerOutcome> {
    const found = await this.#lookUp(tenant.id, signal);
    if (found === undefined) return this.#create(tenant, signal);
    return 'id' in found ? this.#update(tenant, found, signal) : failedStep(found);
  }

  /** Finds a tenant's customer; `named` is the id that the tenant names. Creates nothing. */
  async find(
    tenant: string,
    named: string | undefined,
    signal: AbortSignal,
  ): Promise<StripeCustomerOutcome | { readonly kind: 'none' }> {
    const id = named ?? this.#ids.get(tenant);
    if (id !== undefined) return { kind: 'customer', id };
    const found = await this.#lookUp(tenant, signal);
    if (found === undefined) return { kind: 'none' };
    if (!('id' in found)) return failedStep(found);
    this.#ids.set(tenant, found.id);
    return { kind: 'customer', id: found.id };
  }

  /** Returns the customer that `ensure` last found; undefined while it is uncertain. */
  idOf(tenant: string): string | undefined {
    return this.#doubted.has(tenant) ? undefined : this.#ids.get(tenant);
  }

  /** Makes every customer uncertain: Stripe reported that one is missing, and not which. */
  doubtAll(): void {
    for (const tenant of this.#ids.keys()) this.#doubted.add(tenant);
  }

  /** Returns whether a customer pays for several tenants, among those looked up. */
  isShared(customer: string): boolean {
    return [...this.#ids.values()].filter((id) => id === customer).length > 1;
  }

  /** Removes a tenant's customer, which Stripe reported as missing. */
  forget(tenant: string): void {
    this.#ids.delete(tenant);
    this.#recent = undefined;
  }

  async #lookUp(tenant: string, signal: AbortSignal): Promise<Lookup> {
    return (
      (await this.#known(tenant, signal)) ??
      (await this.#search(tenant, signal)) ??
      (await this.#listed(tenant, signal))
    );
  }

  async #known(tenant: string, signal: AbortSignal): Promise<Lookup> {
    const id = this.#ids.get(tenant);
    if (id === undefined) return undefined;
    const answer = await getCustomer(this.#client, id, signal);
    if (answer.kind === 'ok' && !isDeleted(answer.body)) return { id, object: answer.body };
    if (answer.kind !== 'ok' && !isMissing(answer)) return answer;
    this.forget(tenant);
    return undefined;
  }

  async #search(tenant: string, signal: AbortSignal): Promise<Lookup> {
    if (!this.#searchable) return undefined;
    const query = `metadata['${TENANT_KEY}']:'${escaped(tenant)}'`;
    const answer = await this.#client.get(`${CUSTOMERS}/search`, { query, limit: 100 }, signal);
    if (answer.kind === 'refused') {
      // Search is not offered everywhere. Without it all customers are listed once.
      this.#searchable = false;
      this.#recent = undefined;
      this.#logger.info(
        `[bootstrap] customers are listed, as they cannot be searched: ${answer.reason}`,
      );
      return undefined;
    }
    return answer.kind === 'ok' ? oldest(objectsOf(answer.body, 'data'), tenant) : answer;
  }

  async #listed(tenant: string, signal: AbortSignal): Promise<Lookup> {
    if (this.#recent === undefined) {
      const since = Math.floor((this.#clock.now() - RECENT_MS) / 1000);
      const filter = this.#searchable ? { created: { gte: since } } : {};
      const list = await this.#client.list(CUSTOMERS, filter, signal);
      if (list.kind !== 'list') return list;
      const byTenant = new Map<string, FoundCustomer>();
      // The list is newest first, so the oldest of several customers stays.
      for (const object of list.items) {
        const owner = tenantOf(object);
        const id = textOf(object, 'id');
        if (owner !== undefined && id !== undefined) byTenant.set(owner, { id, object });
      }
      this.#recent = byTenant;
    }
    return this.#recent.get(tenant);
  }

  async #create(tenant: Tenant, signal: AbortSignal): Promise<StripeCustomerOutcome> {
    const params = detailsOf(tenant);
    for (let repeat = 0; repeat < MAX_REPEATS; repeat += 1) {
      const answer = await this.#client.create(CUSTOMERS, params, signal);
      if (answer.kind !== 'ok') {
        // Stripe may have created it all the same, and the next attempt may have another key.
        this.#recent = undefined;
        return failedStep(answer);
      }
      const id = textOf(answer.body, 'id') ?? '';
      if (answer.headers['idempotent-replayed'] === 'true') {
        const now = await getCustomer(this.#client, id, signal);
        if (now.kind !== 'ok') return failedStep(now);
        if (isDeleted(now.body)) {
          this.#client.makeAgain(CUSTOMERS, params);
          continue;
        }
      }
      this.#recent?.set(tenant.id, { id, object: answer.body });
      this.#ids.set(tenant.id, id);
      return { kind: 'customer', id };
    }
    return { kind: 'retry', reason: `customers of tenant ${quote(tenant.id)} keep being deleted` };
  }

  async #update(
    tenant: Tenant,
    { id, object }: FoundCustomer,
    signal: AbortSignal,
  ): Promise<StripeCustomerOutcome> {
    this.#ids.set(tenant.id, id);
    const details = detailsOf(tenant);
    if (!isUpToDate(object, details)) {
      const path = `${CUSTOMERS}/${encodeURIComponent(id)}`;
      const answer = await this.#client.update(path, withStoredFields(object, details), signal);
      if (answer.kind !== 'ok') return failedStep(answer);
    }
    return { kind: 'customer', id };
  }

  /** Uses the customer that a tenant names, without changes. */
  async #useNamed(tenant: Tenant, id: string, signal: AbortSignal): Promise<StripeCustomerOutcome> {
    const answer = await getCustomer(this.#client, id, signal);
    if (answer.kind !== 'ok' && !isMissing(answer)) return failedStep(answer);
    if (answer.kind !== 'ok' || isDeleted(answer.body)) {
      const reason = `no such customer in Stripe: stripe-customer-id: ${quote(id)}`;
      return { kind: 'rejected', reason };
    }
    this.#ids.set(tenant.id, id);
    return { kind: 'customer', id };
  }
}

function getCustomer(client: StripeClient, id: string, signal: AbortSignal): Promise<ApiAnswer> {
  return client.get(`${CUSTOMERS}/${encodeURIComponent(id)}`, {}, signal);
}

function detailsOf(tenant: Tenant) {
  const metadata = {
    [TENANT_KEY]: tenant.id,
    vbilling_region: tenant.region,
    vbilling_project: tenant.project,
    vbilling_tenant_class: tenant.tenantClass,
    vbilling_plan: tenant.plan,
    vbilling_cost_center: tenant.costCenter,
  };
  const given = Object.entries(metadata).flatMap(([key, value]) =>
    value === undefined || value === '' ? [] : [[key, value.slice(0, MAX_METADATA_VALUE)]],
  );
  return {
    name: tenant.displayName.slice(0, MAX_NAME),
    email: tenant.email,
    metadata: Object.fromEntries(given) as Record<string, string>,
    ...addressOf(tenant.billing),
  };
}

type Details = ReturnType<typeof detailsOf>;

/** Returns only the given fields, so that entries made at Stripe stay. */
function addressOf({ address }: BillingDetails = {}): {
  readonly address?: Readonly<Record<string, string>>;
} {
  if (address === undefined) return {};
  const { postalCode, ...rest } = address;
  return { address: postalCode === undefined ? rest : { ...rest, postal_code: postalCode } };
}

/** Adds stored fields of an address to the given ones: Stripe may replace the complete address. */
function withStoredFields(object: JsonObject, details: Details): Details {
  if (details.address === undefined) return details;
  const before = Object.entries(objectOf(object, 'address')).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  );
  return { ...details, address: { ...Object.fromEntries(before), ...details.address } };
}

function isUpToDate(object: JsonObject, details: Details): boolean {
  const metadata = objectOf(object, 'metadata');
  const address = objectOf(object, 'address');
  if (object['name'] !== details.name) return false;
  if (details.email !== undefined && object['email'] !== details.email) return false;
  const hasAddress = Object.entries(details.address ?? {}).every(
    ([key, value]) => address[key] === value,
  );
  return (
    hasAddress && Object.entries(details.metadata).every(([key, value]) => metadata[key] === value)
  );
}

/** Returns the oldest customer of a tenant. Search ignores case, so every result is compared. */
function oldest(objects: readonly JsonObject[], tenant: string): FoundCustomer | undefined {
  const [first] = objects
    .filter((object) => tenantOf(object) === tenant)
    .toSorted((a, b) => Number(a['created']) - Number(b['created']));
  const id = first && textOf(first, 'id');
  return first === undefined || id === undefined ? undefined : { id, object: first };
}

function tenantOf(object: JsonObject): string | undefined {
  return textOf(objectOf(object, 'metadata'), TENANT_KEY);
}

function isDeleted(object: JsonObject): boolean {
  return object['deleted'] === true;
}

function isMissing(answer: ApiAnswer): boolean {
  return answer.kind === 'refused' && answer.code === 'resource_missing';
}

function escaped(text: string): string {
  return text.replace(/['\\]/g, (character) => `\\${character}`);
}

/** Returns the tenant in the metadata that a customer was created with; none for a deleted one. */
export async function tenantsOfStripeCustomer(
  client: StripeClient,
  customer: string,
  signal: AbortSignal,
): Promise<CustomerAnswer> {
  const answer = await getCustomer(client, customer, signal);
  if (answer.kind === 'refused') return { kind: 'unknown' };
  if (answer.kind !== 'ok') return { kind: 'failed', reason: answer.reason };
  const tenant = tenantOf(answer.body);
  return tenant === undefined
    ? { kind: 'unknown' }
    : { kind: 'tenants', tenants: [tenant], certain: true };
}
