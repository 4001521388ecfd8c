import { expect, test } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { startBudgetWorld } from './testing/budget-world.ts';
import { replaceSpec } from './testing/operator-process.ts';

const host = useOwnTestCluster();
const PATIENCE = { timeout: 150_000, interval: 250 };
const IN_PATH = 'in-path-canary-77d0c2a94e51';
const METRIC = 'tenant_inference_tokens';
const METERING_POLICY = '/apis/meterfeed.io/v1alpha1/meteringpolicies/default';

test('a tenant is refused as soon as accepted tokens use its budget up, and also after a restart', {
  timeout: 300_000,
}, async () => {
  await using world = await startBudgetWorld(host, {
    INGEST_TOKEN: `${IN_PATH};use=events|access|path`,
  });
  await world.setBudget({ amount: '100', metric: METRIC, period: 'month', atLimit: 'suspend' });
  const base = (): string => `${world.address}/ingest/${IN_PATH}/api/v1`;
  const question = `customers/${world.tenant}/entitlements/inference-tokens/value?model=m`;
  const access = async (): Promise<unknown> => {
    const response = await fetch(`${base()}/${question}`);
    return response.status === 200 ? response.json() : response.status;
  };
  await expect
    .poll(access, PATIENCE)
    .toMatchObject({ hasAccess: true, balance: 100, usage: 0, unit: METRIC });
  const report = async (id: string, model: string): Promise<number> => {
    const data = { model, prompt_tokens: 40, completion_tokens: 25 };
    const event = { specversion: '1.0', type: 'litellm_tokens', source: 'litellm-proxy', id };
    const { status } = await fetch(`${base()}/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/cloudevents+json' },
      body: JSON.stringify({ ...event, subject: world.tenant, data }),
    });
    return status;
  };
  expect(await report('one', 'm')).toBe(204);
  expect(await report('one', 'm')).toBe(204);
  expect(await access()).toMatchObject({ hasAccess: true, balance: 35, usage: 65 });
  expect(await report('two', 'another')).toBe(204);
  const refused = { hasAccess: false, reason: 'usage_limit_reached', usage: 130, overage: 30 };
  expect(await access()).toMatchObject(refused);

  const poll = async (): Promise<unknown> => {
    const path = `/ingest/${IN_PATH}/api/v3/openmeter/entitlement-access/query`;
    const response = await fetch(`${world.address}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ customer: { keys: [`consumer:${world.tenant}`] } }),
    });
    return response.status === 200 ? response.json() : response.status;
  };
  expect(await poll()).toBe(404);
  await replaceSpec(host, METERING_POLICY, { ingest: { entitlementAccessQuery: true } });
  const features = { [METRIC]: { has_access: false, reason: { code: 'usage_limit_reached' } } };
  await expect.poll(poll, PATIENCE).toMatchObject({ data: [{ features }], errors: [] });

  await world.stop();
  await world.start();
  await expect.poll(access, PATIENCE).toMatchObject(refused);
  expect(await report('one', 'm')).toBe(204);
  expect(await access()).toMatchObject(refused);
});
