import { afterEach, describe, expect, test } from 'vitest';
import type { FakeLagoOptions } from '../../../e2e/fakes/lago/lago.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { Secret } from '../../model/secret.ts';
import type { LagoSettings } from './settings.ts';
import type { MetricDefinition } from '../../model/catalog.ts';
import { testTenant } from '../testing/context.ts';
import { createLagoWorld, LAGO_METRICS, type LagoWorld, NEVER } from './testing/lago-world.ts';

const worlds: LagoWorld[] = [];

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});

async function world(
  options: Partial<FakeLagoOptions> = {},
  settings: Partial<LagoSettings> = {},
): Promise<LagoWorld> {
  const created = await createLagoWorld(options, settings);
  worlds.push(created);
  return created;
}

const tokens: MetricDefinition = {
  code: 'tokens',
  name: 'tokens',
  unit: 'tokens',
  description: 'tokens',
  aggregationField: 'tokens',
  source: 'custom',
  informational: false,
  dimensions: ['model'],
};

test('the metrics and a plan with one charge of 0 for each are there after the start', async () => {
  const { lago, bootstrap } = await world();
  await bootstrap();
  expect(
    [...lago.state.metrics.values()].map(({ code, field_name, aggregation_type }) => [
      code,
      field_name,
      aggregation_type,
    ]),
  ).toStrictEqual([
    ['tenant_cpu_core_hours', 'cpu_core_hours', 'sum_agg'],
    ['tenant_memory_gb_hours', 'memory_gb_hours', 'sum_agg'],
    ['tenant_storage_gb_hours', 'storage_gb_hours', 'sum_agg'],
    ['tenant_instance_hours', 'instance_hours', 'sum_agg'],
    ['tenant_gpu_hours', 'gpu_hours', 'sum_agg'],
    ['tenant_gpu_utilization', 'gpu_util_score', 'sum_agg'],
    ['tenant_network_egress_gb', 'egress_gb', 'sum_agg'],
    ['tenant_lb_hours', 'lb_hours', 'sum_agg'],
    ['tenant_private_node_hours', 'private_node_hours', 'sum_agg'],
    ['tenant_inference_tokens', 'tokens', 'sum_agg'],
    ['tenant_inference_requests', 'requests', 'sum_agg'],
  ]);
  const plan = lago.state.plans.get('tenant-standard');
  expect(plan).toMatchObject({
    name: 'Tenant standard',
    interval: 'monthly',
    amount_cents: 0,
    amount_currency: 'USD',
    pay_in_advance: false,
  });
  expect(
    plan?.charges.map(({ billable_metric_code, charge_model, properties }) => [
      billable_metric_code,
      charge_model,
      properties,
    ]),
  ).toStrictEqual(LAGO_METRICS.map(({ code }) => [code, 'standard', { amount: '0' }]));
});

test('tokens cannot be priced by kind before the first request, nor by model after it', async () => {
  const { lago, ready, destination } = await world();
  await ready(testTenant());
  const filters = () => lago.state.metrics.get('tenant_inference_tokens')?.filters;
  const values = ['input', 'cache_read', 'cache_write', 'output', 'reasoning'];
  expect(filters()).toStrictEqual([{ key: 'token_type', values }]);
  const dimensions = { model: 'gpt-5', provider: 'openai', token_type: 'input' };
  const event = { ...testEvent({}), metric: 'tenant_inference_tokens', unit: 'tokens', dimensions };
  expect(await destination.send([event], NEVER)).toMatchObject([{ kind: 'delivered' }]);
  expect(filters()).toContainEqual({ key: 'model', values: ['gpt-5'] });
  expect(filters()).toContainEqual({ key: 'provider', values: ['openai'] });
});

test('a second start creates nothing and changes nothing', async () => {
  const { lago, bootstrap, restart, requests } = await world();
  await bootstrap();
  const before = requests('POST', '/').length;
  expect(await restart().bootstrap(LAGO_METRICS, NEVER)).toStrictEqual({ kind: 'done' });
  expect(requests('POST', '/')).toHaveLength(before);
  expect(lago.requests.filter(({ method }) => method === 'PUT')).toHaveLength(0);
});

test('a start that died half-way is completed by the next', async () => {
  const { lago, restart } = await world();
  const dying = restart();
  lago.misbehaviours.add({ kind: 'reset', method: 'POST', path: '/api/v1/plans', times: 1 });
  expect((await dying.bootstrap(LAGO_METRICS, NEVER)).kind).toBe('retry');
  expect(lago.state.plans.size).toBe(0);
  expect(await restart().bootstrap(LAGO_METRICS, NEVER)).toStrictEqual({ kind: 'done' });
  expect(lago.state.plans.get('tenant-standard')?.charges).toHaveLength(11);
});

test('what another process created in the meantime is adopted', async () => {
  const { lago, destination } = await world();
  for (const path of ['/api/v1/billable_metrics', '/api/v1/plans']) {
    lago.misbehaviours.add({ kind: 'commit-then-reset', method: 'POST', path, times: 1 });
  }
  await destination.bootstrap(LAGO_METRICS, NEVER);
  lago.misbehaviours.clear();
  expect(await destination.bootstrap(LAGO_METRICS, NEVER)).toStrictEqual({ kind: 'done' });
  expect(lago.state.metrics.size).toBe(11);
});

describe('a custom metric', () => {
  test('joins a plan that exists, and prices that were set stay', async () => {
    const { lago, bootstrap, destination } = await world();
    await bootstrap();
    const charge = lago.state.plans.get('tenant-standard')?.charges[4];
    if (charge === undefined) throw new Error('no charge');
    charge.properties = { amount: '2.5' };
    const outcome = await destination.bootstrap([...LAGO_METRICS, tokens], NEVER);
    expect(outcome).toStrictEqual({ kind: 'done' });
    const charges = lago.state.plans.get('tenant-standard')?.charges ?? [];
    expect(charges.map(({ code }) => code)).toContain('tokens');
    expect(charges[4]?.properties).toStrictEqual({ amount: '2.5' });
    expect(lago.requests.filter(({ method }) => method === 'PUT')).toHaveLength(0);
  });

  test('leaves the plan of an older server to its owner, and reports it', async () => {
    const { lago, bootstrap, destination, context } = await world({ legacy: true });
    await bootstrap();
    expect(await destination.bootstrap([...LAGO_METRICS, tokens], NEVER)).toStrictEqual({
      kind: 'done',
    });
    expect(lago.state.plans.get('tenant-standard')?.charges).toHaveLength(11);
    expect(context.logger.lines.at(-1)).toBe(
      'warn [bootstrap] warning: this Lago cannot add charges to a plan: add them to "tenant-standard" by hand: tokens',
    );
  });

  test('that Lago refuses does not cost the others their bootstrap', async () => {
    const { bootstrap, context } = await world();
    await bootstrap([...LAGO_METRICS, { ...tokens, name: '' }]);
    expect(context.logger.lines.join()).toContain(
      'warn [bootstrap] warning: metric "tokens": lago-style API error 422: validation_errors: {"name":["value_is_mandatory"]}',
    );
  });
});

describe('trouble', () => {
  test('of a wrong key is reported in the words of the specification, and holds', async () => {
    const { restart } = await world();
    const outcome = await restart({ apiKey: new Secret('canary') }).bootstrap(LAGO_METRICS, NEVER);
    expect(outcome).toStrictEqual({
      kind: 'blocked',
      reason: 'lago-style API error 401: check the API key',
    });
  });

  test('of a Lago that is not there is reported in the words of the specification', async () => {
    const { lago, destination } = await world();
    await lago.close();
    expect(await destination.bootstrap(LAGO_METRICS, NEVER)).toEqual({
      kind: 'retry',
      reason: 'HTTP GET /api/v1/billable_metrics: connection refused',
    });
  });

  test.each([
    [{ kind: 'status', status: 200, body: '<html>' }, 'blocked', 'not that of a Lago API'],
    [{ kind: 'status', status: 404, body: '<html>' }, 'blocked', 'not that of a Lago API'],
    [{ kind: 'status', status: 302 }, 'blocked', 'redirects are not followed'],
    [{ kind: 'status', status: 403, body: { code: 'x' } }, 'blocked', 'lacks a permission (x)'],
    [{ kind: 'status', status: 502, body: '<html>' }, 'retry', 'lago-style API error 502'],
    [
      { kind: 'status', status: 422, body: { code: 'lock_acquisition_failed' } },
      'retry',
      'lago-style API error 422',
    ],
  ] as const)('of %j', async (misbehaviour, kind, reason) => {
    const { lago, destination } = await world();
    lago.misbehaviours.add(misbehaviour);
    const outcome = await destination.bootstrap(LAGO_METRICS, NEVER);
    expect(outcome.kind).toBe(kind);
    expect(outcome).toHaveProperty('reason', expect.stringContaining(reason));
  });

  test('of a rate limit says how long to wait', async () => {
    const { lago, destination } = await world();
    const headers = { 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '3' };
    lago.misbehaviours.add({ kind: 'status', status: 429, headers });
    expect(await destination.bootstrap(LAGO_METRICS, NEVER)).toMatchObject({
      kind: 'retry',
      afterMs: 3000,
    });
  });
});

test('an address that already names the API is understood', async () => {
  const { lago, restart } = await world();
  const outcome = await restart({ url: `${lago.url}/api/v1/` }).bootstrap(LAGO_METRICS, NEVER);
  expect(outcome).toStrictEqual({ kind: 'done' });
});

test('the plan has the currency of BILLING_CURRENCY', async () => {
  const { lago, bootstrap } = await world({}, { currency: 'EUR', planCode: 'gold_plan' });
  await bootstrap();
  expect(lago.state.plans.get('gold_plan')).toMatchObject({
    name: 'Gold plan',
    amount_currency: 'EUR',
  });
});

test('a plan in another currency than BILLING_CURRENCY is reported before any tenant is refused', async () => {
  const { bootstrap, restart } = await world({}, { currency: 'EUR' });
  await bootstrap();
  expect(await restart({ currency: 'USD' }).bootstrap(LAGO_METRICS, NEVER)).toStrictEqual({
    kind: 'rejected',
    reason: 'plan "tenant-standard" is priced in EUR: BILLING_CURRENCY: "USD"',
  });
});
