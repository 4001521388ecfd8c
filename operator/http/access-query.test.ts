import { expect, test } from 'vitest';
import { ACCESS, IN_PATH, leftOf, OF_ACME, startGateway } from './testing/access-server.ts';
import { API_TOKEN, INGEST_TOKEN } from './testing/test-server.ts';

const PATH = '/api/v3/openmeter/entitlement-access/query';
const EUR = 10n ** 21n;
const ON = { environment: { 'spec.ingest.entitlementAccessQuery': 'true' } };
const SPENT = leftOf(100n * EUR);
/** As OpenMeter's document has it; one customer and one feature. */
const BODY = { customer: { keys: ['acme'] }, feature: { keys: ['llm_token_access'] } };
const manyKeys = (count: number) => Array.from({ length: count }, (_, index) => `key-${index}`);

/** A server that answers the poll. */
function startPolled(change: Parameters<typeof startGateway>[0] = {}) {
  return startGateway(change, ON);
}

type Polled = Awaited<ReturnType<typeof startPolled>>;

const poll = (server: Polled, body: unknown = BODY, token: string | undefined = ACCESS) =>
  server.call('POST', PATH, { token, body });

test('an unstable API is answered although nobody switched it on', async () => {
  await using server = await startGateway({ left: SPENT });
  for (const body of [BODY, '{']) {
    const answer = await poll(server, body);
    expect([answer.status, answer.json]).toStrictEqual([
      404,
      {
        error:
          'not available: it is switched off: set spec.ingest.entitlementAccessQuery of the MeteringPolicy',
      },
    ]);
  }
  const { ingest } = server.settings;
  server.settings = { ...server.settings, ingest: { ...ingest, entitlementAccessQuery: true } };
  expect((await poll(server)).status).toBe(200);
});

test.each<[string, Parameters<typeof startGateway>[0], object]>([
  ['something left', { left: leftOf(37n * EUR) }, { has_access: true }],
  ['no budget', {}, { has_access: true }],
  [
    'nothing left',
    { left: SPENT },
    {
      has_access: false,
      reason: { code: 'usage_limit_reached', message: 'usage_limit_reached' },
    },
  ],
  [
    'a suspension',
    { billingState: () => ({ state: 'suspended', reason: 'unpaid', manual: false }) },
    { has_access: false, reason: { code: 'feature_unavailable', message: 'suspended' } },
  ],
  ['usage that is held because nobody knows it', { isKnown: () => false }, { has_access: true }],
])(
  'a customer with %s gets another answer than before each request',
  async (_name, change, feature) => {
    await using server = await startPolled({ ...change, staleMs: 200.4 });
    const body = { include_credits: true, ...BODY };
    const answer = await server.call('POST', `${PATH}?page[size]=100`, { token: ACCESS, body });
    expect([answer.status, answer.json]).toStrictEqual([
      200,
      {
        data: [
          {
            matched: ['acme'],
            customer: { id: 'acme', key: 'acme', name: 'acme' },
            features: { llm_token_access: feature },
            updated_at: '2026-11-21T09:04:59.799Z',
          },
        ],
        errors: [],
        meta: { page: { size: 100, next: null, previous: null } },
      },
    ]);
  },
);

test('a consumer has another tenant than in its events, or a feature another metric', async () => {
  const questions: string[] = [];
  await using server = await startPolled({
    isKnown: (tenant) => questions.push(tenant) > 0,
    left: leftOf(0n, {
      budget: { ...SPENT.budget, counts: { kind: 'metric', metric: 'tenant_gpu_hours' } },
      isSpent: true,
    }),
  });
  const { ingest } = server.settings;
  server.settings = {
    ...server.settings,
    ingest: { ...ingest, subjects: [{ subject: 'key-*', tenant: 'acme' }] },
  };
  const customers = ['consumer:key-1', 'consumer:globex', 'consumer:key-1'];
  const features = ['llm_token_access', 'tenant_gpu_hours', '__proto__'];
  const { json } = await poll(server, {
    customer: { keys: customers },
    feature: { keys: features },
  });
  expect(questions).toStrictEqual([
    'acme',
    'consumer:key-1',
    'acme',
    'globex',
    'consumer:globex',
    'globex',
  ]);
  const { data } = json as { readonly data: readonly { readonly features: object }[] };
  expect(data.map(({ features: one }) => Object.entries(one))).toStrictEqual(
    Array.from({ length: 2 }, () => [
      ['llm_token_access', { has_access: true }],
      ['tenant_gpu_hours', expect.objectContaining({ has_access: false })],
      ['__proto__', { has_access: true }],
    ]),
  );
});

test('without features it is about tokens', async () => {
  await using server = await startPolled({ left: SPENT });
  const { json } = await poll(server, { customer: { keys: ['acme'] } });
  expect(json).toMatchObject({
    data: [{ features: { tenant_inference_tokens: { has_access: false } } }],
  });
});

test('a token for other things polls; one of a tenant learns about others, or they stop its poll', async () => {
  await using server = await startPolled({ left: SPENT });
  const statusWith = async (token?: string) =>
    (await server.call('POST', PATH, { token, body: BODY })).status;
  expect(await statusWith(API_TOKEN)).toBe(200);
  expect(await statusWith(INGEST_TOKEN)).toBe(403);
  expect(await statusWith('wrong')).toBe(401);
  expect(await statusWith()).toBe(401);
  const inPath = await server.call('POST', `/ingest/${IN_PATH}${PATH}`, { body: BODY });
  expect(inPath.status).toBe(200);
  const { json } = await poll(server, { customer: { keys: ['globex', 'acme'] } }, OF_ACME);
  expect(json).toMatchObject({
    data: [{ matched: ['acme'] }],
    errors: [{ code: 'customer_not_found', message: 'beyond the token', customer: 'globex' }],
  });
});

test.each<[string, Parameters<typeof startGateway>[0]]>([
  ['older than a second', { staleMs: 1000.5 }],
  ['without the open requests', { openUsage: () => undefined }],
])('Kong stores answers that are %s', async (_name, change) => {
  await using server = await startPolled({ ...change, left: leftOf(0n) });
  const answer = await poll(server);
  expect([answer.status, answer.headers.get('retry-after')]).toStrictEqual([503, '1']);
});

test.each<[string, unknown, string]>([
  ['no JSON', '{"customer":', 'not valid JSON: body: '],
  ['a list', [BODY], 'not an object: body: '],
  ['no customers', {}, 'not a list of texts: customer.keys: '],
  ['a customer as text', { customer: 'acme' }, 'not a list of texts: customer.keys: '],
  ['numbers', { customer: { keys: [7] } }, 'not a list of texts: customer.keys: '],
  [
    'an empty list',
    { customer: { keys: [] } },
    'too few or too many keys: customer.keys: 0: send 1 to 100 texts',
  ],
  [
    'a misspelt field',
    { ...BODY, features: {} },
    'unknown field: "features": use include_credits, customer, feature',
  ],
  ['a misspelt list', { customer: { key: ['acme'] } }, 'unknown field: "key": use keys'],
  ['no feature', { ...BODY, feature: null }, 'not a list of texts: feature.keys: '],
  [
    'too many customers',
    { customer: { keys: manyKeys(101) } },
    'too few or too many keys: customer.keys: 101: send 1 to 100 texts',
  ],
  [
    'too many features',
    { ...BODY, feature: { keys: manyKeys(11) } },
    'too few or too many keys: feature.keys: 11: send 1 to 10 texts',
  ],
])('a request with %s is answered as if it were understood', async (_name, body, message) => {
  await using server = await startPolled();
  const answer = await poll(server, body);
  expect([answer.status, answer.json]).toStrictEqual([
    400,
    { error: expect.stringContaining(message) },
  ]);
});

test('a body that no poll has takes memory', async () => {
  await using server = await startPolled();
  const body = { customer: { keys: ['x'.repeat(128 * 1024)] } };
  expect((await poll(server, body)).status).toBe(413);
  const longest = { customer: { keys: manyKeys(100).map((key) => key.padEnd(256, 'é')) } };
  expect((await poll(server, longest)).status).toBe(200);
});

test('a poll about many is counted as one question, or beside the other access checks', async () => {
  await using server = await startGateway({}, { ...ON, limits: { eventsPerSecond: 100 } });
  expect((await poll(server, { customer: { keys: manyKeys(99) } })).status).toBe(200);
  const one = await server.call('GET', '/api/v1/tenants/acme/access', { token: ACCESS });
  const next = await poll(server);
  expect([one.status, next.status, next.headers.get('retry-after')]).toStrictEqual([200, 429, '1']);
});
