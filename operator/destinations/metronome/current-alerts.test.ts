import { afterEach, expect, test } from 'vitest';
import { testTenant } from '../testing/context.ts';
import { createMetronomeWorld, type MetronomeWorld, NEVER } from './testing/metronome-world.ts';

const SPEND = 'a1e47000-0000-4000-8000-000000000001';
const worlds: MetronomeWorld[] = [];

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});

async function withTenants(...ids: readonly string[]): Promise<MetronomeWorld> {
  const world = await createMetronomeWorld();
  worlds.push(world);
  await world.ready(...ids.map((id) => testTenant({ id, displayName: id, clusters: [id] })));
  return world;
}

/** Sets the state of an alert about a customer's spend. */
function setAlert({ metronome }: MetronomeWorld, tenant: string, status: 'ok' | 'in_alarm'): void {
  const { alerts, customers } = metronome.state;
  const customer = customers.find(({ ingest_aliases }) => ingest_aliases.includes(tenant));
  const known = alerts.find(({ customer_id }) => customer_id === customer?.id);
  if (known !== undefined) known.customer_status = status;
  else {
    alerts.push({
      customer_id: customer?.id ?? '',
      alert: {
        id: SPEND,
        name: 'Spend of a month',
        type: 'spend_threshold_reached',
        status: 'enabled',
        threshold: 100_000,
        updated_at: '2026-11-01T00:00:00Z',
      },
      customer_status: status,
    });
  }
}

async function currentAlerts({ destination }: MetronomeWorld, requested: readonly string[] = []) {
  const outcome = await destination.alerts.current(requested, NEVER);
  if (outcome?.kind !== 'alerts') throw new Error(outcome?.reason ?? 'no answer');
  return outcome.alerts;
}

test('an alert whose webhook never came is reported, for any tenant', async () => {
  const world = await withTenants('acme', 'beta');
  setAlert(world, 'acme', 'ok');
  setAlert(world, 'beta', 'in_alarm');
  const [alert, ...others] = await currentAlerts(world);
  expect(others).toStrictEqual([]);
  expect(alert).toMatchObject({
    type: 'alerts.spend_threshold_reached',
    subject: `alert/${SPEND}`,
    state: 'warning',
    reason: 'Spend of a month',
  });
  const customer = alert?.customer.id ?? '';
  expect(await world.destination.alerts.tenantsOf('metronome', customer, NEVER)).toMatchObject({
    tenants: ['beta'],
  });
});

test('an alert that is over, and whose end nobody reported, warns nobody any longer', async () => {
  const world = await withTenants('acme');
  setAlert(world, 'acme', 'ok');
  expect(await currentAlerts(world)).toStrictEqual([]);
  expect(await currentAlerts(world, [`alert/${SPEND}`])).toMatchObject([
    { type: 'alerts.spend_threshold_resolved', subject: `alert/${SPEND}`, state: 'active' },
  ]);
});

test('customers beyond the bound of one poll have their turn in the next', async () => {
  const ids = Array.from({ length: 101 }, (_, index) => `tenant-${index}`);
  const world = await withTenants(...ids);
  setAlert(world, 'tenant-100', 'in_alarm');
  expect(await currentAlerts(world)).toStrictEqual([]);
  expect(await currentAlerts(world)).toHaveLength(1);
});

test('a Metronome that does not answer says nothing of how anybody stands', async () => {
  const world = await withTenants('acme');
  world.metronome.misbehaviours.add({ kind: 'status', status: 503 });
  expect(await world.destination.alerts.current([], NEVER)).toMatchObject({ kind: 'failed' });
});
