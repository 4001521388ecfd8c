import type { RecordChange } from '../../../ledger/ledger.ts';
import type { CustomerAnswer } from '../../../destinations/destination.ts';
import type { Tenant } from '../../../model/tenant.ts';
import type { AlertCustomer } from '../../../destinations/alerts.ts';
import type { DestinationType } from '../../../model/destination-type.ts';
import type { RecordStore } from './state-store.ts';

const PREFIX = 'enforcement/customer/';

/** Asks a billing system which tenant one of its customers is; used once for each customer. */
export type QueryCustomer = (
  provider: DestinationType,
  customer: string,
  signal: AbortSignal,
) => Promise<CustomerAnswer>;

export type TenantsOfCustomer =
  /** `learnt` is to be written with what the alert leads to. */
  | {
      readonly kind: 'tenants';
      readonly tenants: readonly string[];
      readonly learnt: readonly RecordChange[];
    }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'failed'; readonly reason: string };

/** Which tenants a billing system means by a customer. */
export interface Customers {
  tenantsOf(
    provider: DestinationType,
    customer: AlertCustomer,
    signal: AbortSignal,
  ): Promise<TenantsOfCustomer>;
  /** Reads what was learnt, in place of all that is known; throws when the ledger cannot be read. */
  load(): Promise<void>;
}

/**
 * In this order: the tenant that the operator itself wrote into the object that the message is about,
 * the tenant whose metadata name the customer id, the tenant that the message names, what was learnt before,
 * what the billing system answers. An id that several tenants name counts for none of them. What was learnt
 * is known once it is loaded.
 */
export function createCustomers(options: {
  readonly ledger: RecordStore;
  readonly tenants: () => readonly Tenant[];
  /** Tenants that have a billing state. */
  readonly hasState: (tenant: string) => boolean;
  readonly query: QueryCustomer;
}): Customers {
  const { tenants, query } = options;
  /** The tenants of a customer, as a JSON list. */
  const learnt = new Map<string, string>();

  const isKnown = (id: string): boolean =>
    options.hasState(id) || tenants().some((tenant) => tenant.id === id);

  const pinnedTo = (provider: DestinationType, customer: string | undefined) => {
    if (customer === undefined) return undefined;
    const [only, ...others] = tenants().filter(
      ({ customerIds }) => customerIds?.[provider] === customer,
    );
    return others.length === 0 ? only?.id : undefined;
  };

  const named = ({ tenant, certain }: AlertCustomer): string | undefined => {
    if (tenant === undefined) return undefined;
    return certain === true || isKnown(tenant) ? tenant : undefined;
  };

  const learn = (key: string, ids: readonly string[]): TenantsOfCustomer => {
    const value = JSON.stringify(ids);
    const isNews = learnt.get(key) !== value;
    learnt.set(key, value);
    return { kind: 'tenants', tenants: ids, learnt: isNews ? [{ key: PREFIX + key, value }] : [] };
  };

  return {
    load: async () => {
      learnt.clear();
      for await (const [key, list] of options.ledger.records(PREFIX)) {
        learnt.set(key.slice(PREFIX.length), list);
      }
    },
    tenantsOf: async (provider, customer, signal) => {
      // Where customers are called like their tenants, nobody takes the name of a tenant that is known.
      const isNamesake = customer.id === customer.tenant && isKnown(customer.tenant ?? '');
      const isSure = customer.certain === true || isNamesake;
      const pinned = isSure ? undefined : pinnedTo(provider, customer.id);
      if (pinned !== undefined) return { kind: 'tenants', tenants: [pinned], learnt: [] };
      const tenant = named(customer);
      if (customer.id === undefined || customer.id === customer.tenant) {
        return tenant === undefined
          ? { kind: 'unknown' }
          : { kind: 'tenants', tenants: [tenant], learnt: [] };
      }
      const key = `${provider}/${customer.id}`;
      if (tenant !== undefined) return learn(key, [tenant]);
      const before = parseList(learnt.get(key));
      if (before.length > 0) return { kind: 'tenants', tenants: before, learnt: [] };
      const answer = await query(provider, customer.id, signal);
      if (answer.kind !== 'tenants') return answer;
      const ours = answer.tenants.filter((id) => answer.certain || isKnown(id));
      return ours.length > 0 ? learn(key, ours) : { kind: 'unknown' };
    },
  };
}

function parseList(text: string | undefined): readonly string[] {
  try {
    const value: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(value) && value.every((id) => typeof id === 'string') ? value : [];
  } catch {
    return [];
  }
}
