import { afterAll, beforeAll, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { type FakeLago, startFakeLago } from '../../e2e/fakes/lago/lago.ts';
import { startBudgetWorld } from './testing/budget-world.ts';

const host = useOwnTestCluster();
const API = '/apis/meterfeed.io/v1alpha1';
const PATIENCE = { timeout: 150_000, interval: 250 };
const BOOK = `${API}/pricebooks/tenant-standard`;
const GPU = 'tenant_gpu_hours';

/** The default plan's book: H100 at 2.40, and at another price from a day to come on. */
function bookWith(next?: object, known: object = {}): object {
  const rates = [{ from: '2026-01-01', amount: '2.40' }, ...(next === undefined ? [] : [next])];
  const prices = [{ name: 'h100', metric: GPU, match: { sku: 'h100' }, rates }];
  return {
    apiVersion: 'meterfeed.io/v1alpha1',
    kind: 'PriceBook',
    metadata: { name: 'tenant-standard' },
    ...known,
    spec: { currency: 'EUR', prices },
  };
}

let lago: FakeLago;
beforeAll(async () => {
  lago = await startFakeLago({ apiKey: 'key' });
});
afterAll(() => lago.close());

interface Destination {
  readonly status?: {
    readonly conditions?: readonly { readonly type: string; readonly message: string }[];
  };
}

async function messageOf(type: string): Promise<string | undefined> {
  const { status } = (await host.call('GET', `${API}/billingdestinations/lago`)) as Destination;
  return status?.conditions?.find((condition) => condition.type === type)?.message;
}

test('prices that differ are a condition of the destination until they are as the book says', {
  timeout: 300_000,
}, async () => {
  await using world = await startBudgetWorld(host, { DEFAULT_PLAN_CODE: 'tenant-standard' });
  await host.call('POST', `/api/v1/namespaces/${world.own}/secrets`, {
    metadata: { name: 'lago' },
    stringData: { key: 'key' },
  });
  await host.call('POST', `${API}/billingdestinations`, {
    apiVersion: 'meterfeed.io/v1alpha1',
    kind: 'BillingDestination',
    metadata: { name: 'lago' },
    spec: {
      type: 'lago',
      lago: {
        url: lago.url,
        apiKeySecretRef: { name: 'lago', key: 'key' },
        planCode: 'tenant-standard',
        currency: 'EUR',
      },
    },
  });
  await expect.poll(() => messageOf('Bootstrapped'), PATIENCE).toContain('has what it needs');
  expect(await messageOf('PricesDiffer')).toBeUndefined();
  await host.call('POST', `${API}/pricebooks`, bookWith());
  await expect
    .poll(() => messageOf('PricesDiffer'), PATIENCE)
    .toBe(
      `Prices at the billing system differ from the PriceBooks: plan "tenant-standard": ${GPU}{sku="h100"} has no price: 2.4 by "h100". GET /api/v1/destinations/lago/plan lists all`,
    );
  const plan = async (): Promise<unknown> =>
    (await world.call('GET', '/api/v1/destinations/lago/plan')).json();
  expect(await plan()).toMatchObject({
    destination: 'lago',
    plans: [
      {
        price_book: 'tenant-standard',
        exists: true,
        differences: [{ kind: 'create', price: 'h100', wanted: { amount: '2.4' } }],
      },
    ],
  });

  const charge = lago.state.plans.get('tenant-standard')?.charges.find(({ code }) => code === GPU);
  if (charge === undefined) throw new Error('no charge');
  charge.filters = [{ values: { sku: ['h100'] }, properties: { amount: '2.4' } }];
  expect(await plan()).toMatchObject({ plans: [{ same: 1, differences: [] }] });
  // Looked at again because the book changes: the price of a day to come is none of today's.
  await host.call(
    'PUT',
    BOOK,
    bookWith({ from: '2099-01-01', amount: '2' }, await host.call('GET', BOOK)),
  );
  await expect.poll(() => messageOf('PricesDiffer'), PATIENCE).toBeUndefined();
});
