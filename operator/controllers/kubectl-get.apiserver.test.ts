import { afterAll, beforeAll, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { type ControllersRig, startControllers } from './testing/controllers-rig.ts';
import { clusterOf, progressOf, tenantsOf, windowsOf } from './testing/facts.ts';
import { installCustomResources } from './testing/install.ts';
import { manifest } from './testing/objects.ts';
import type { Plural } from './testing/schemas.ts';

const cluster = useOwnTestCluster();
const PATIENCE = { timeout: 20_000, interval: 50 };
let rig: ControllersRig;

beforeAll(async () => {
  await installCustomResources(cluster);
  const namespace = await cluster.createNamespace('operator');
  rig = await startControllers({ kubeconfig: cluster.kubeconfig, namespace });
});
afterAll(() => rig.stop());

async function create(plural: Plural, name: string, spec: object): Promise<void> {
  const path = `/apis/meterfeed.io/v1alpha1/${plural}`;
  await cluster.call('POST', path, { ...manifest(plural, spec, name) });
}

/** What stands under STATUS, by object. */
async function statuses(plural: Plural): Promise<Readonly<Record<string, string>>> {
  const table = await cluster.kubectl(['get', plural]);
  const [header = '', ...rows] = table.trimEnd().split('\n');
  const from = header.indexOf('STATUS');
  return Object.fromEntries(rows.map((row) => [row.split(' ')[0] ?? '', row.slice(from).trim()]));
}

test('kubectl get is green while no money flows', async () => {
  const blue = clusterOf('team', 'blue', { tenant: 'acme' });
  const refusal = 'plan: not found: "gold"';
  const parked = { tenant: 'acme', reason: refusal, events: 9, since: 0 };
  rig.engine.tenants = {
    ...tenantsOf(blue),
    overrides: () => [
      { name: 'acme-plan', applied: [blue.id], conflicts: [] },
      { name: 'nobody', applied: [], conflicts: [] },
    ],
  };
  rig.engine.windows = windowsOf({
    lastWindowEnd: () => Date.now(),
    prometheus: () => ({ leftOut: [], silent: 'connection refused' }),
  });
  const examples = [
    'plan "tenant-standard": tenant_gpu_hours{sku="h100"}: 2.9 there, 2.4 by "h100"',
  ];
  rig.engine.delivery = {
    list: () => [
      progressOf('healthy'),
      progressOf('typo', { unknownMetrics: ['tenant_gpu_hour'] }),
      progressOf('prices', { prices: { differing: 1, examples } }),
      progressOf('parked', { parkedTenants: [parked] }),
      progressOf('several', {
        deadLetters: 3,
        unpriced: [{ metric: 'tenant_gpu_hours', sku: 'h100', plan: 'tenant-standard' }],
        prices: { differing: 1, examples },
      }),
      progressOf('away', {
        consecutiveFailures: 3,
        lastError: 'HTTP POST /: host not found: "a-billing-system-with-a-long-name.example.com"',
      }),
    ],
  };
  const metrics = { include: ['tenant_gpu_hour'] };
  await create('billingdestinations', 'typo', { type: 'noop', metrics });
  for (const name of ['healthy', 'prices', 'parked', 'several', 'away']) {
    await create('billingdestinations', name, { type: 'noop' });
  }
  const match = { namespace: 'team', name: 'blue' };
  await create('tenantoverrides', 'acme-plan', { match, plan: 'gold' });
  await create('tenantoverrides', 'nobody', { match: { ...match, name: 'bleu' }, plan: 'gold' });
  const rates = [{ from: '2026-01-01', amount: '2.4' }];
  const prices = [{ name: 'gpu', metric: 'tenant_gpu_hour', rates }];
  await create('pricebooks', 'tenant-standard', { currency: 'EUR', prices });
  await expect
    .poll(() => statuses('billingdestinations'), PATIENCE)
    .toStrictEqual({
      healthy: 'OK',
      typo: 'UnknownMetrics: "tenant_gpu_hour" in spec.metrics',
      prices: 'PricesDiffer: other prices than the PriceBooks',
      parked: `TenantsParked: tenant "acme": ${refusal}`,
      several: 'DeadLetters: events refused for good (+2 more)',
      away: 'DeliveryFailing: HTTP POST /: host not found: "a-billing-system-with-a-…',
    });
  await expect
    .poll(() => statuses('meteringpolicies'), PATIENCE)
    .toStrictEqual({
      default: 'PrometheusUnreachable: connection refused',
    });
  await expect
    .poll(() => statuses('tenantoverrides'), PATIENCE)
    .toStrictEqual({
      'acme-plan': `PlanUnusable: refused by "parked": ${refusal}`,
      nobody: 'NothingMatched: no tenant cluster matches spec.match',
    });
  await expect
    .poll(() => statuses('pricebooks'), PATIENCE)
    .toStrictEqual({ 'tenant-standard': 'UnknownMetrics: "tenant_gpu_hour" of price "gpu"' });
}, 90_000);
