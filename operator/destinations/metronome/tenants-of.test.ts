import { afterEach, expect, test } from 'vitest';
import { testTenant } from '../testing/context.ts';
import { createMetronomeWorld, type MetronomeWorld, NEVER } from './testing/metronome-world.ts';

let open: MetronomeWorld | undefined;

afterEach(async () => {
  await open?.close();
  open = undefined;
});

test('Metronome says which tenants a customer may be, also after a restart, and nothing of strangers', async () => {
  open = await createMetronomeWorld();
  const id = await open.asOperator('/v1/customers', {
    name: 'Team A',
    ingest_aliases: [testTenant().id, 'another-product'],
  });
  const destination = open.restart();
  expect(await destination.alerts.tenantsOf('metronome', id, NEVER)).toStrictEqual({
    kind: 'tenants',
    tenants: [testTenant().id, 'another-product'],
    certain: false,
  });
  const stranger = '00000000-0000-4000-8000-000000000000';
  for (const [system, customer] of [
    ['metronome', stranger],
    ['stripe', 'cus_1'],
    ['lago', id],
  ] as const) {
    expect(await destination.alerts.tenantsOf(system, customer, NEVER)).toStrictEqual({
      kind: 'unknown',
    });
  }
  open.metronome.misbehaviours.add({ kind: 'status', status: 500, method: 'GET', times: 1 });
  expect(await destination.alerts.tenantsOf('metronome', id, NEVER)).toMatchObject({
    kind: 'failed',
  });
});
