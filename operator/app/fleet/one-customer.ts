import type {
  Destination,
  ProvisionOutcome,
  StepOutcome,
  VerifyOutcome,
} from '../../destinations/destination.ts';
import type { Customer } from '../../ledger/fleet.ts';
import type { FleetCustomers, CustomerWork } from './customers.ts';
import { errorText } from '../../model/error-text.ts';
import type { UsageEvent } from '../../model/event.ts';
import { override } from '../../model/override.ts';
import type { Tenant } from '../../model/tenant.ts';

const NOT_REQUESTED: VerifyOutcome = { kind: 'retry', reason: 'the destination cannot be queried' };

/** Stands for a tenant in work that concerns all of them. */
const NOBODY = '';

/**
 * A destination as one of several streams sees it. Customers are made and ended one at a time over
 * all streams (docs/how-to/fleet.md#one-customer):
 * 1. Another stream has made the customer as wanted: nothing is requested.
 * 2. A stream leaves while other streams have the customer: the customer stays.
 * 3. The last stream leaves: the customer ends.
 */
export function oneCustomer(
  destination: Destination,
  stream: string,
  customers: FleetCustomers,
): Destination {
  const alone = async <T>(
    tenant: Tenant,
    work: (known: Customer | undefined) => Promise<CustomerWork<T>>,
  ): Promise<T | StepOutcome> => {
    try {
      return await customers.alone(destination.name, tenant.id, work);
    } catch (error) {
      return { kind: 'retry', reason: `shared customers: ${errorText(error)}` };
    }
  };
  const { customers: own } = destination;
  return override<Destination>(destination, {
    bootstrap: async (catalog, signal) => {
      try {
        const make = async () =>
          ({ result: await destination.bootstrap(catalog, signal), record: 'as before' }) as const;
        return await customers.alone(destination.name, NOBODY, make);
      } catch (error) {
        return { kind: 'retry', reason: `shared customers: ${errorText(error)}` };
      }
    },
    // Leaves out `sameBucket`: the destination's sums cover all streams, and the ledger of one
    // stream cannot separate them.
    ...(destination.verify !== undefined && {
      verify: async (events: readonly UsageEvent[], signal: AbortSignal) =>
        (await destination.verify?.(events, signal)) ?? NOT_REQUESTED,
    }),
    customers: own && {
      provision: (tenant, signal) =>
        alone<ProvisionOutcome>(tenant, async (known) => {
          const wanted = withEarliest(tenant, known);
          const record = recordOf(wanted, stream, known);
          if (known !== undefined && isMadeByAnother(known, record, stream)) {
            return { result: { kind: 'done' }, record };
          }
          const result = await own.provision(wanted, signal);
          return { result, record: result.kind === 'done' ? record : 'as before' };
        }),
      offboard: (tenant, signal) =>
        alone<StepOutcome>(tenant, async (known) => {
          const others = (known?.streams ?? []).filter((one) => one !== stream);
          if (known !== undefined && others.length > 0) {
            return { result: { kind: 'done' }, record: { ...known, streams: others } };
          }
          const result = await own.offboard(tenant, signal);
          return { result, record: result.kind === 'done' ? 'none' : 'as before' };
        }),
    },
  });
}

/**
 * The tenant with the earliest usage of any stream. A later start of the subscription would leave
 * usage unbilled.
 */
function withEarliest(tenant: Tenant, known: Customer | undefined): Tenant {
  const starts = [tenant.billableFrom, known?.billableFrom].filter((at) => at !== undefined);
  return starts.length === 0 ? tenant : { ...tenant, billableFrom: Math.min(...starts) };
}

function recordOf(tenant: Tenant, stream: string, known: Customer | undefined): Customer {
  const { billableFrom, ...rest } = tenant;
  return {
    fingerprint: JSON.stringify(rest),
    billableFrom,
    streams: [...new Set([...(known?.streams ?? []), stream])].toSorted(),
  };
}

/**
 * Returns whether another stream has made the customer as wanted. A recorded stream requests it
 * again on purpose: after a restart, or when the destination does not find it.
 */
function isMadeByAnother(known: Customer, wanted: Customer, stream: string): boolean {
  return (
    !known.streams.includes(stream) &&
    known.fingerprint === wanted.fingerprint &&
    known.billableFrom === wanted.billableFrom
  );
}

/**
 * Merges the tenants of all streams into one per id: the oldest tenant, with the tenant clusters of
 * all streams. Of equally old ones the first stream's counts.
 */
export function mergeTenants(all: readonly (readonly Tenant[])[]): ReadonlyMap<string, Tenant> {
  const merged = new Map<string, Tenant>();
  for (const tenant of all.flat()) {
    const before = merged.get(tenant.id);
    if (before === undefined) {
      merged.set(tenant.id, tenant);
      continue;
    }
    const oldest = tenant.createdAt < before.createdAt ? tenant : before;
    const clusters = [...new Set([...before.clusters, ...tenant.clusters])].toSorted();
    merged.set(tenant.id, { ...oldest, clusters });
  }
  return merged;
}
