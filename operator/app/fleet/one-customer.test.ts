import { describe, expect, test } from 'vitest';
import type { Destination, ProvisionOutcome } from '../../destinations/destination.ts';
import { testTenant } from '../../destinations/testing/context.ts';
import type { Customer, CustomerRecords } from '../../ledger/fleet.ts';
import type { Tenant } from '../../model/tenant.ts';
import { FleetCustomers } from './customers.ts';
import { mergeTenants, oneCustomer } from './one-customer.ts';

const NEVER = new AbortController().signal;
const START = Date.UTC(2026, 10, 1);

/** Records in memory: `rows` by destination and tenant. */
function memoryRecords() {
  const rows = new Map<string, Customer>();
  const records: CustomerRecords = {
    read: async (destination) =>
      new Map(
        [...rows].flatMap(([key, customer]) => {
          const [name, tenant = ''] = key.split('/');
          return name === destination ? [[tenant, customer] as const] : [];
        }),
      ),
    write: async (destination, tenant, customer) => {
      const key = `${destination}/${tenant}`;
      if (customer === undefined) rows.delete(key);
      else rows.set(key, customer);
    },
  };
  return { rows, records };
}

/** A billing system that writes down what it is asked. */
function world(answer: ProvisionOutcome = { kind: 'done' }) {
  const requested: string[] = [];
  const destination: Destination = {
    name: 'lago',
    type: 'lago',
    limits: { batchEvents: 1 },
    accepts: () => true,
    bootstrap: async () => ({ kind: 'done' }),
    customers: {
      provision: async ({ id, billableFrom = 0 }) => {
        requested.push(`provision ${id} from ${(billableFrom - START) / 3_600_000}`);
        return answer;
      },
      offboard: async ({ id }) => {
        requested.push(`offboard ${id}`);
        return { kind: 'done' };
      },
    },
    close: async () => undefined,
    send: async (events) => events.map(() => ({ kind: 'delivered' })),
    verify: async (events, _signal, bucket) => {
      requested.push(`verify ${events.length} by sums: ${bucket !== undefined}`);
      return { kind: 'verified', known: new Set() };
    },
  };
  const { rows, records } = memoryRecords();
  const customers = new FleetCustomers(records, () => true);
  const at = (stream: string) => oneCustomer(destination, stream, customers);
  return { requested, rows, destination, berlin: at('berlin'), paris: at('paris') };
}

const acme = (change: Partial<Tenant> = {}): Tenant =>
  testTenant({ id: 'acme', billableFrom: START, ...change });

describe('a tenant in two clusters', () => {
  test('is made once, and found made by the other stream, also where both come at the same time', async () => {
    const { requested, berlin, paris } = world();
    const outcomes = await Promise.all([
      berlin.customers?.provision(acme(), NEVER),
      paris.customers?.provision(acme(), NEVER),
    ]);
    expect(outcomes).toEqual([{ kind: 'done' }, { kind: 'done' }]);
    expect(requested).toEqual(['provision acme from 0']);
  });

  test('is requested again by a stream that requested it before: the billing system may have lost it', async () => {
    const { requested, berlin } = world();
    await berlin.customers?.provision(acme(), NEVER);
    await berlin.customers?.provision(acme(), NEVER);
    expect(requested).toHaveLength(2);
  });

  test('is billable from the earliest usage of either, and never from a later one again', async () => {
    const { requested, berlin, paris } = world();
    await berlin.customers?.provision(acme(), NEVER);
    await paris.customers?.provision(acme({ billableFrom: START - 3_600_000 }), NEVER);
    await berlin.customers?.provision(acme(), NEVER);
    expect(requested).toEqual([
      'provision acme from 0',
      'provision acme from -1',
      'provision acme from -1',
    ]);
  });

  test('that could not be made is tried by each, and is on record of neither', async () => {
    const { requested, rows, berlin, paris } = world({ kind: 'rejected', reason: 'no email' });
    await berlin.customers?.provision(acme(), NEVER);
    expect(await paris.customers?.provision(acme(), NEVER)).toMatchObject({ kind: 'rejected' });
    expect(requested).toHaveLength(2);
    expect(rows.size).toBe(0);
  });

  test('stays a customer until it has left both, and then ends once', async () => {
    const { requested, rows, berlin, paris } = world();
    await berlin.customers?.provision(acme(), NEVER);
    await paris.customers?.provision(acme(), NEVER);
    expect(await berlin.customers?.offboard(acme(), NEVER)).toEqual({ kind: 'done' });
    expect(await berlin.customers?.offboard(acme(), NEVER)).toEqual({ kind: 'done' });
    expect(requested).toEqual(['provision acme from 0']);
    await paris.customers?.offboard(acme(), NEVER);
    expect(requested).toEqual(['provision acme from 0', 'offboard acme']);
    expect(rows.size).toBe(0);
  });

  test('is not compared by sums, in which the other cluster’s usage would pass for what was sent', async () => {
    const { requested, berlin } = world();
    await berlin.verify?.([], NEVER, []);
    expect(requested).toEqual(['verify 0 by sums: false']);
  });
});

test('a database that does not answer makes a customer wait, and nobody guess', async () => {
  const { requested, destination } = world();
  const failing = async () => {
    throw new Error('connection refused');
  };
  const away = new FleetCustomers({ read: failing, write: failing }, () => true);
  const berlin = oneCustomer(destination, 'berlin', away);
  expect(await berlin.customers?.provision(acme(), NEVER)).toEqual({
    kind: 'retry',
    reason: 'shared customers: connection refused',
  });
  expect(requested).toEqual([]);
});

test('a process that was frozen makes no customer once another one may lead', async () => {
  const { requested, rows, destination } = world();
  let mayWork = true;
  const customers = new FleetCustomers(memoryRecords().records, () => mayWork);
  const berlin = oneCustomer(destination, 'berlin', customers);
  mayWork = false;
  expect(await berlin.customers?.provision(acme(), NEVER)).toMatchObject({
    kind: 'retry',
    reason: expect.stringContaining('another process'),
  });
  expect([requested, rows.size]).toEqual([[], 0]);
  mayWork = true;
  expect(await berlin.customers?.provision(acme(), NEVER)).toEqual({ kind: 'done' });
});

test('a customer whose record could not be written is made again by the next request', async () => {
  const { requested, destination } = world();
  const { rows, records } = memoryRecords();
  let fails = true;
  const customers = new FleetCustomers(
    {
      ...records,
      write: async (...row) => {
        if (fails) throw new Error('no answer');
        await records.write(...row);
      },
    },
    () => true,
  );
  const at = (stream: string) => oneCustomer(destination, stream, customers);
  expect(await at('berlin').customers?.provision(acme(), NEVER)).toMatchObject({ kind: 'retry' });
  fails = false;
  await at('paris').customers?.provision(acme(), NEVER);
  expect(requested).toHaveLength(2);
  expect(rows.get('lago/acme')?.streams).toEqual(['paris']);
});

test('one customer has the name of the cluster where it is oldest, whichever stream is read first', () => {
  const old = acme({ displayName: 'Acme', clusters: ['a'], createdAt: START });
  const young = acme({ displayName: 'acme', clusters: ['b', 'a'], createdAt: START + 1 });
  const other = acme({ id: 'globex' });
  for (const all of [
    [[old], [young, other]],
    [[young, other], [old]],
  ]) {
    const merged = mergeTenants(all);
    expect(merged.get('acme')).toEqual({ ...old, clusters: ['a', 'b'] });
    expect(merged.get('globex')).toEqual(other);
  }
});
