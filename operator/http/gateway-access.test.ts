import { describe, expect, test } from 'vitest';
import type { UnclosedUsage } from '../billing/budgets/account.ts';
import { ACCESS, IN_PATH, leftOf, OF_ACME, startGateway, TOKENS } from './testing/access-server.ts';
import { API_TOKEN, INGEST_TOKEN, startTestServer } from './testing/test-server.ts';

const EUR = 10n ** 21n;
const OURS = '/api/v1/tenants/acme/access';
const PRAXIS = '/api/v1/customers/acme/entitlements/inference-tokens/value?model=llama-3.3-70b';

describe('the question before a request', () => {
  test.each([
    ['some is left', leftOf(37n * EUR), { hasAccess: true, balance: 63, usage: 37, overage: 0 }],
    [
      'nothing is left',
      leftOf((1005n * EUR) / 10n),
      { hasAccess: false, reason: 'usage_limit_reached', balance: 0, usage: 100.5, overage: 0.5 },
    ],
  ])('is answered in both forms with 200: %s', async (_name, left, expected) => {
    await using server = await startGateway({ left, staleMs: 200.4 });
    for (const path of [OURS, `${OURS}?metric=tenant_gpu_hours&model=`, PRAXIS]) {
      const { status, json } = await server.call('GET', path, { token: ACCESS });
      expect([status, json]).toStrictEqual([
        200,
        {
          ...expected,
          totalAvailableGrantAmount: 100,
          unit: 'EUR',
          state: 'active',
          as_of: '2026-11-21T09:04:59.799Z',
          stale_seconds: 0.201,
        },
      ]);
    }
  });

  test('names a caller as events do: with the prefix of the rule for the metric', async () => {
    const tenants: string[] = [];
    await using server = await startGateway({ isKnown: (tenant) => tenants.push(tenant) > 0 });
    const kong = {
      type: 'kong',
      subjectPrefix: 'consumer:',
      metrics: [],
      tokens: { dimensions: {} },
    };
    const image = { ...kong, type: 'image', subjectPrefix: 'app:', tokens: undefined };
    server.settings = {
      ...server.settings,
      ingest: {
        ...server.settings.ingest,
        cloudEvents: [image, kong],
        subjects: [{ subject: 'key-*', tenant: 'acme' }],
      },
    };
    for (const id of ['consumer:key-1', 'key-1', 'consumer:globex', 'app:globex']) {
      const path = `/api/v1/customers/${encodeURIComponent(id)}/entitlements/tokens/value`;
      expect((await server.call('GET', path, { token: ACCESS })).status).toBe(200);
    }
    expect(tenants).toStrictEqual(['acme', 'acme', 'globex', 'app:globex']);
  });

  test('counts the requests that are not in the ledger up to the position of the account', async () => {
    const usage = { metric: 'tenant_inference_tokens', unit: 'tokens' };
    const open: readonly UnclosedUsage[] = [{ ...usage, nanos: 5n, window: { start: 0, end: 1 } }];
    const questions: unknown[] = [];
    await using server = await startGateway({
      openUsage: (...question) => {
        questions.push(question);
        return open;
      },
      budgets: { staleMs: 0, position: 7, left: (...question) => void questions.push(question) },
    });
    await server.call('GET', OURS, { token: ACCESS });
    expect(questions).toStrictEqual([
      ['acme', 7],
      ['acme', open],
    ]);
  });

  test.each<[string, Parameters<typeof startGateway>[0], object]>([
    ['no budget', {}, { hasAccess: true }],
    [
      'unknown',
      { isKnown: () => false, left: leftOf(100n * EUR) },
      { hasAccess: true, reason: 'unknown_tenant' },
    ],
    [
      'suspended by a billing system',
      { billingState: () => ({ state: 'suspended', reason: 'unpaid', manual: false }) },
      { hasAccess: false, reason: 'suspended', state: 'suspended' },
    ],
    [
      'suspended, but on the list of those who never are',
      {
        billingState: () => ({ state: 'suspended', reason: 'unpaid', manual: false }),
        isSpared: () => true,
      },
      { hasAccess: true, state: 'suspended' },
    ],
    [
      'admitted by a person although nothing is left',
      {
        left: leftOf(101n * EUR),
        billingState: () => ({ state: 'active', reason: 'on me', manual: true }),
      },
      { hasAccess: true, overage: 1 },
    ],
    [
      'a budget of another metric',
      {
        left: leftOf(0n, {
          budget: { ...leftOf(0n).budget, counts: { kind: 'metric', metric: 'tenant_gpu_hours' } },
          isSpent: true,
        }),
      },
      { hasAccess: true },
    ],
  ])('about a tenant with: %s', async (_name, change, expected) => {
    await using server = await startGateway(change);
    const { status, json } = await server.call('GET', PRAXIS, { token: ACCESS });
    expect(status).toBe(200);
    expect(json).toMatchObject(expected);
    expect(Object.hasOwn(json as object, 'reason')).toBe(Object.hasOwn(expected, 'reason'));
  });

  test.each<[string, Parameters<typeof startGateway>[0]]>([
    ['older than a second', { staleMs: 1000.5 }],
    ['not read since the start', { staleMs: Number.POSITIVE_INFINITY }],
    ['without the open requests', { openUsage: () => undefined }],
  ])(
    'has no answer from accounts that are %s: the policy of the gateway decides',
    async (_name, change) => {
      await using server = await startGateway({ ...change, left: leftOf(0n) });
      const answer = await server.call('GET', OURS, { token: ACCESS });
      expect([answer.status, answer.headers.get('retry-after')]).toStrictEqual([503, '1']);
    },
  );

  test('about a metric that nobody knows is refused, because nothing could be right', async () => {
    await using server = await startGateway();
    const answer = await server.call('GET', `${OURS}?metric=tokns`, { token: ACCESS });
    expect(answer.status).toBe(400);
  });

  test('is not limited by the number of requests that other clients may send', async () => {
    await using server = await startGateway({}, { limits: { requestsPerSecond: 1 } });
    for (let index = 0; index < 5; index += 1) {
      expect((await server.call('GET', OURS, { token: ACCESS })).status).toBe(200);
    }
    const few = await startGateway({}, { limits: { eventsPerSecond: 1 } });
    const statuses: number[] = [];
    for (let index = 0; index < 20; index += 1) {
      statuses.push((await few.call('GET', OURS, { token: ACCESS })).status);
    }
    await few.close();
    expect(statuses).toContain(429);
  });
});

describe('a token', () => {
  test('for access checks reads nothing else and pushes nothing; one for pushing checks no access', async () => {
    await using server = await startGateway();
    const statusOf = async (method: string, path: string, token?: string) =>
      (await server.call(method, path, { token, ...(method === 'POST' && { body: {} }) })).status;
    expect(await statusOf('GET', OURS, ACCESS)).toBe(200);
    expect(await statusOf('GET', OURS, API_TOKEN)).toBe(200);
    expect(await statusOf('GET', OURS, INGEST_TOKEN)).toBe(403);
    expect(await statusOf('GET', OURS, 'wrong')).toBe(401);
    expect(await statusOf('GET', OURS)).toBe(401);
    expect(await statusOf('GET', '/api/v1/tenants', ACCESS)).toBe(403);
    expect(await statusOf('POST', '/api/v1/events', ACCESS)).toBe(403);
    expect(await statusOf('POST', '/api/v1/events', INGEST_TOKEN)).toBe(400);
  });

  test('of one tenant checks no other', async () => {
    await using server = await startGateway();
    expect((await server.call('GET', OURS, { token: OF_ACME })).status).toBe(200);
    const other = await server.call('GET', '/api/v1/tenants/globex/access', { token: OF_ACME });
    expect(other.status).toBe(403);
  });

  test('nobody set means that nobody checks access', async () => {
    await using server = await startGateway(
      {},
      { environment: { INGEST_TOKEN: '', API_TOKEN: '' } },
    );
    expect((await server.call('GET', OURS)).status).toBe(403);
  });
});

describe('a secret in the path', () => {
  const below = (secret: string, path: string) => `/ingest/${secret}${path}`;

  test('stands for a header where a gateway sends none, and opens nothing else', async () => {
    await using server = await startGateway();
    const statusOf = async (method: string, path: string) =>
      (await server.call(method, path, method === 'POST' ? { body: {} } : {})).status;
    expect(await statusOf('GET', below(IN_PATH, PRAXIS))).toBe(200);
    expect(await statusOf('GET', below(IN_PATH, OURS))).toBe(200);
    expect(await statusOf('POST', below(IN_PATH, '/api/v1/events'))).toBe(400);
    for (const path of ['/api/v1/tenants', '/api/v1/events', '/metrics', '/', '']) {
      expect([path, await statusOf('GET', below(IN_PATH, path))]).toStrictEqual([path, 404]);
    }
    for (const secret of ['wrong', `${IN_PATH}x`, '%2E%2E']) {
      expect(await statusOf('GET', below(secret, PRAXIS))).toBe(401);
      expect(await statusOf('POST', below(secret, '/api/v1/events'))).toBe(401);
    }
    // Tokens for a header only: whoever puts them into a path would have them logged by proxies.
    for (const token of [ACCESS, INGEST_TOKEN]) {
      expect(await statusOf('GET', below(token, PRAXIS))).toBe(403);
    }
    expect(await statusOf('GET', below(API_TOKEN, PRAXIS))).toBe(401);
  });

  test('is not in logs, answers and metrics, whatever goes wrong', async () => {
    const throwing = {
      of: () => {
        throw new Error('broken');
      },
    };
    await using server = await startTestServer({
      environment: { INGEST_TOKEN: TOKENS },
      views: { access: throwing },
    });
    expect((await server.call('GET', below(IN_PATH, PRAXIS))).status).toBe(500);
    await server.call('GET', below(IN_PATH, '/nowhere'));
    await server.call('POST', below(IN_PATH, '/api/v1/events'), { body: '{' });
    const all = [...server.log, ...server.answers, await server.metrics.metrics()].join('\n');
    expect(all).toContain('request failed');
    expect(all).toContain('route="/ingest/{secret}/api/v1/events"');
    expect(all).not.toContain(IN_PATH);
  });
});
