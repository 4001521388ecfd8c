import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { translatePolicy } from '../../operator/controllers/policy-settings.ts';
import { loadHeldUsage } from '../../operator/billing/held-usage/testing/held-usage.ts';
import {
  API_TOKEN,
  NOW,
  startTestServer,
  testClock,
  testSettings,
} from '../../operator/http/testing/test-server.ts';
import { AccessCheck } from '../../operator/intake/access-check.ts';
import { Intake } from '../../operator/intake/intake.ts';
import { createMemoryLedger } from '../../operator/ledger/testing/memory-ledger.ts';
import { BUILT_IN_METRICS } from '../../operator/model/catalog.ts';
import { createMemoryLogger } from '../../operator/telemetry/testing/memory-logger.ts';
import { seededRandom } from '../../operator/ledger/testing/seeded-random.ts';
import { GATEWAY_POLICY, runGateway } from './local-gateway.ts';

const METRIC = 'tenant_inference_tokens';
const LIMIT = 20_000n * 10n ** 9n;

/** A server with a real intake, whose tenant `trial` may use so many tokens. */
async function startOperator() {
  const ledger = createMemoryLedger();
  const registry = new Registry();
  const intake = new Intake({
    ledger,
    held: await loadHeldUsage(ledger),
    clock: testClock,
    logger: createMemoryLogger(),
    registry,
    region: 'local',
    unitOf: (code) => BUILT_IN_METRICS.find((metric) => metric.code === code)?.unit,
    windowMs: () => 60_000,
    lateForMs: () => 7_200_000,
  });
  await intake.load();
  const budget = { limit: LIMIT };
  const used = (tenant: string): bigint =>
    intake
      .openSums(tenant)
      .filter(({ metric }) => metric === METRIC)
      .reduce((sum, { nanos }) => sum + nanos, 0n);
  const access = new AccessCheck({
    budgets: {
      staleMs: 0,
      position: 0,
      left: (tenant) => {
        if (tenant !== 'trial') return undefined;
        const { limit } = budget;
        const isSpent = used(tenant) >= limit;
        const counts = { kind: 'metric', metric: METRIC } as const;
        const period = { kind: 'prepaid' } as const;
        const given = {
          counts,
          amount: limit,
          period,
          thresholds: [],
          atLimit: 'suspend',
        } as const;
        return { budget: given, limit, used: used(tenant), isSpent };
      },
    },
    openUsage: () => [],
    isKnown: () => true,
    billingState: () => ({ state: 'active', reason: '', manual: false }),
    isSpared: () => false,
  });
  const settings = testSettings({ INGEST_TOKEN: '' });
  const policy = translatePolicy({ ingest: GATEWAY_POLICY }, settings.metering);
  if (policy.kind === 'invalid') throw new Error(policy.message);
  const ingest = { ...settings.ingest, ...policy.settings.ingest };
  const server = await startTestServer({
    ledger,
    environment: { INGEST_TOKEN: '' },
    views: {
      intake,
      access,
      settings: () => ({ ...settings, ingest }),
    },
  });
  return { server, intake, registry, used, budget };
}

test('a gateway goes on for a tenant whose balance is used up, and stays closed when more is paid in', async () => {
  const { server, intake, registry, used, budget } = await startOperator();
  const stopping = new AbortController();
  const lines: string[] = [];
  const run = runGateway({
    address: `http://127.0.0.1:${server.port}`,
    token: API_TOKEN,
    everyMs: 0,
    now: () => NOW,
    random: seededRandom(1),
    log: (line) => lines.push(line),
    signal: stopping.signal,
  });
  await expect.poll(() => lines, { timeout: 20_000 }).toHaveLength(1);
  const spent = used('trial');
  expect(spent).toBeGreaterThanOrEqual(LIMIT);
  const [, text = ''] = /^gateway: requests of trial are refused: (.*)$/.exec(lines[0] ?? '') ?? [];
  expect(JSON.parse(text)).toMatchObject({
    hasAccess: false,
    reason: 'usage_limit_reached',
    usage: Number(spent) / 1e9,
    unit: METRIC,
  });
  const [acme, requests] = [used('acme'), intake.stats().entries];
  await expect.poll(() => used('acme'), { timeout: 20_000 }).toBeGreaterThan(acme);
  expect(used('trial')).toBe(spent);
  budget.limit += LIMIT;
  await expect.poll(() => lines[1], { timeout: 20_000 }).toBe('gateway: trial has access again');
  stopping.abort();
  await run;
  expect(intake.stats().entries).toBeGreaterThan(requests);
  // Answers of its cache come with an id that was counted, and count once.
  expect(await registry.metrics()).toMatch(/outcome="repeated"\} [1-9]/);
  expect(await Array.fromAsync(intake.deadLetters())).toStrictEqual([]);
  await server.close();
});
