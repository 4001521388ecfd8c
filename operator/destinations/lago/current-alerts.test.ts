import { afterEach, expect, test } from 'vitest';
import { time } from '../../../e2e/fakes/vectors.ts';
import { testTenant } from '../testing/context.ts';
import { createLagoWorld, type LagoWorld, NEVER } from './testing/lago-world.ts';

const TENANT = testTenant({ createdAt: time('01T00') });
const worlds: LagoWorld[] = [];

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});

/** Returns a tenant with an invoice for January, due on 6 February. */
async function invoiced(): Promise<LagoWorld & { readonly invoice: string }> {
  const world = await createLagoWorld({ rules: { netTermDays: 5 } });
  worlds.push(world);
  world.advanceTo(time('01T00'));
  await world.ready(TENANT);
  world.advanceTo(time('Feb 01T01'));
  const [invoice] = world.lago.state.invoices;
  if (invoice === undefined) throw new Error('no invoice');
  return { ...world, invoice: invoice.lago_id };
}

async function currentAlerts({ destination }: LagoWorld, requested: readonly string[] = []) {
  const outcome = await destination.alerts.current(requested, NEVER);
  if (outcome?.kind !== 'alerts') throw new Error(outcome?.reason ?? 'no answer');
  return outcome.alerts.map(({ customer, subject, state, settles, at }) => ({
    tenant: customer.tenant,
    subject,
    state,
    settles,
    at,
  }));
}

async function act(world: LagoWorld, method: string, path: string, body?: unknown): Promise<void> {
  const response = await fetch(`${world.lago.url}/api/v1/${path}`, {
    method,
    headers: { authorization: 'Bearer key' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  expect(response.status).toBe(200);
}

test('an invoice that is overdue is reported, though its webhook never came', async () => {
  const world = await invoiced();
  expect(await currentAlerts(world)).toStrictEqual([]);
  world.advanceTo(time('Feb 07T01'));
  expect(await currentAlerts(world)).toStrictEqual([
    {
      tenant: TENANT.id,
      subject: `invoice/${world.invoice}`,
      state: 'delinquent',
      settles: undefined,
      at: time('Feb 07T01'),
    },
  ]);
});

test('an invoice that could not be collected is reported', async () => {
  const world = await invoiced();
  const invoice = { payment_status: 'failed' };
  await act(world, 'PUT', `invoices/${world.invoice}`, { invoice });
  expect(await currentAlerts(world)).toMatchObject([{ state: 'delinquent' }]);
});

test.each([
  ['paid', 'PUT', '', { invoice: { payment_status: 'succeeded' } }],
  ['voided', 'POST', '/void', undefined],
])('an invoice that was %s meanwhile is in order, when it is queried', async (...given) => {
  const [, method, path, body] = given;
  const world = await invoiced();
  world.advanceTo(time('Feb 07T01'));
  await act(world, method, `invoices/${world.invoice}${path}`, body);
  expect(await currentAlerts(world)).toStrictEqual([]);
  const requested = [`invoice/${world.invoice}`, 'invoice/unknown', 'alert/a1', 'dunning'];
  expect(await currentAlerts(world, requested)).toMatchObject([
    { subject: requested[0], state: 'active', settles: undefined },
  ]);
});

test('a Lago that does not answer is no reason to think that all is well', async () => {
  const world = await invoiced();
  world.lago.misbehaviours.add({ kind: 'status', status: 500, path: '/api/v1/invoices' });
  expect(await world.destination.alerts.current([], NEVER)).toStrictEqual({
    kind: 'failed',
    reason: 'lago-style API error 500',
  });
});

test('the key with which Lago signs its webhooks is read, and a new one after it', async () => {
  const world = await createLagoWorld();
  worlds.push(world);
  const published = () => Buffer.from(world.lago.keys.publicKey(), 'base64').toString();
  const first = await world.destination.alerts.publicKey(NEVER);
  expect(first).toStrictEqual({ kind: 'key', key: published() });
  world.lago.keys.rotate();
  const second = await world.destination.alerts.publicKey(NEVER);
  expect(second).toStrictEqual({ kind: 'key', key: published() });
  expect(second).not.toStrictEqual(first);
});

test('what is published in place of a key is not taken for one', async () => {
  const world = await createLagoWorld();
  worlds.push(world);
  const body = { webhook: { public_key: Buffer.from('no key').toString('base64') } };
  const path = '/api/v1/webhooks/';
  world.lago.misbehaviours.add({ kind: 'status', status: 200, body, path });
  expect(await world.destination.alerts.publicKey(NEVER)).toMatchObject({ kind: 'failed' });
});
