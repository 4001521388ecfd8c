import { parseRecord } from '../../../model/parse-record.ts';
import type { RecordChange, RecordStore } from '../../../ledger/ledger.ts';
import type { CustomerAnswer } from '../../../destinations/destination.ts';
import type { Tenant } from '../../../model/tenant.ts';
import type { AlertCustomer } from '../../../destinations/alerts.ts';
import type { DestinationType } from '../../../model/destination-type.ts';

const PREFIX = 'enforcement/customer/';

/** Queries which tenant a billing system's customer is. Called once for each customer. */
export type QueryCustomer = (
  provider: DestinationType,
  customer: string,
  signal: AbortSignal,
) => Promise<CustomerAnswer>;

export type TenantsOfCustomer =
  /** Write `learnt` in the same transaction as the effect of the alert. */
  | {
      readonly kind: 'tenants';
      readonly tenants: readonly string[];
      readonly learnt: readonly RecordChange[];
    }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'failed'; readonly reason: string };

/** Maps the customers of billing systems to tenants. */
export type TenantsByCustomer = ReturnType<typeof createCustomers>;

/**
 * Finds the tenants of a customer. The first of these answers wins:
 * 1. The tenant that the operator wrote into the object of the message.
 * 2. The tenant whose metadata pin the customer id. An id that several tenants pin counts for none.
 * 3. The tenant that the message names.
 * 4. The recorded answer of an earlier alert.
 * 5. The answer of the billing system.
 */
export function createCustomers(options: {
  readonly ledger: RecordStore;
  readonly tenants: () => readonly Tenant[];
  /** Tenants that have a billing state. */
  readonly hasState: (tenant: string) => boolean;
  readonly query: QueryCustomer;
}) {
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
    /** Replaces everything known by the records of the ledger. Throws when it cannot be read. */
    load: async (): Promise<void> => {
      learnt.clear();
      for await (const [key, list] of options.ledger.records(PREFIX)) {
        learnt.set(key.slice(PREFIX.length), list);
      }
    },
    tenantsOf: async (
      provider: DestinationType,
      customer: AlertCustomer,
      signal: AbortSignal,
    ): Promise<TenantsOfCustomer> => {
      // When customers are named like their tenants, no other tenant may pin the name of a known
      // one.
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
      const before = parseRecord(learnt.get(key) ?? '[]', isList) ?? [];
      if (before.length > 0) return { kind: 'tenants', tenants: before, learnt: [] };
      const answer = await query(provider, customer.id, signal);
      if (answer.kind !== 'tenants') return answer;
      const ours = answer.tenants.filter((id) => answer.certain || isKnown(id));
      return ours.length > 0 ? learn(key, ours) : { kind: 'unknown' };
    },
  };
}

function isList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((id) => typeof id === 'string');
}
