import { expect, test } from 'vitest';
import { testEvent } from '../ledger/testing/events.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { newKey } from './portal/testing/keys.ts';
import { loadApiDocument } from './testing/api-document.ts';
import {
  API_TOKEN,
  INGEST_TOKEN,
  NOW,
  quietDiscovery,
  quietViews,
  startTestServer,
  testSettings,
  testTenant,
} from './testing/test-server.ts';

const document = loadApiDocument();
const settings = testSettings({
  PORTAL_KEYS: newKey(),
  'spec.ingest.entitlementAccessQuery': 'true',
});
// Of a token of the tenant acme.
const TOKEN_ID = '0190a5b0-0000-4000-65be-3f7e3b6bd5e2';
const PUSHED = {
  tenant: 'acme',
  metric: 'tokens_used',
  quantity: 1500,
  window_start: '2026-11-21T09:00:00Z',
  window_end: '2026-11-21T09:01:00Z',
};

/** Every operation that changes something, with a body that it takes; `undefined` for none. */
const CHANGES: Readonly<Record<string, readonly [path: string, body: object | undefined]>> = {
  'DELETE /api/v1/billing-states/{tenant}': ['/api/v1/billing-states/acme', undefined],
  'DELETE /api/v1/tenants/{tenant}/portal-tokens': [
    '/api/v1/tenants/acme/portal-tokens',
    undefined,
  ],
  'DELETE /api/v1/tenants/{tenant}/portal-tokens/{id}': [
    `/api/v1/tenants/acme/portal-tokens/${TOKEN_ID}`,
    undefined,
  ],
  'POST /api/v1/destinations/{name}/cursor': ['/api/v1/destinations/lago/cursor', { seq: 0 }],
  'POST /api/v1/destinations/{name}/dead-letters/discard': [
    '/api/v1/destinations/lago/dead-letters/discard',
    { all: true },
  ],
  'POST /api/v1/destinations/{name}/dead-letters/replay': [
    '/api/v1/destinations/lago/dead-letters/replay',
    { ids: ['e-1'], force: true },
  ],
  'POST /api/v1/events': ['/api/v1/events', { events: [PUSHED] }],
  'POST /api/v1/events/{id}/corrections': [
    '/api/v1/events/e-1/corrections',
    { quantity: 0, reason: 'pushed twice', author: 'ann' },
  ],
  'POST /api/v1/held-tenants/{tenant}/discard': ['/api/v1/held-tenants/acm/discard', undefined],
  'POST /api/v1/held-tenants/{tenant}/release': ['/api/v1/held-tenants/acm/release', undefined],
  'POST /api/v1/held-tenants/{tenant}/rename': ['/api/v1/held-tenants/acm/rename', { to: 'acme' }],
  'POST /api/v1/tenants/{tenant}/credits': [
    '/api/v1/tenants/acme/credits',
    { key: 'payment-1', amount: '100', currency: 'EUR' },
  ],
  'POST /api/v1/tenants/{tenant}/portal-tokens': [
    '/api/v1/tenants/acme/portal-tokens',
    { valid_for: '1h' },
  ],
  'POST /api/v3/openmeter/entitlement-access/query': [
    '/api/v3/openmeter/entitlement-access/query',
    { customer: { keys: ['acme'] } },
  ],
  'PUT /api/v1/billing-states/{tenant}': ['/api/v1/billing-states/acme', { state: 'warning' }],
};

/** A billing system says what is in it, and may say more at any time. */
const OF_VENDORS = 'POST /webhooks/{provider}';

/** A server on which each of {@link CHANGES} succeeds; `done` lists what was carried out. */
async function start() {
  const done: string[] = [];
  const note = async <T>(what: string, outcome: T): Promise<T> => {
    done.push(what);
    return outcome;
  };
  const quiet = quietViews(() => settings);
  const ledger = createMemoryLedger();
  const event = testEvent({ id: 'e-1', tenant: 'acme', windowStart: NOW - 3_600_000 });
  await ledger.append({ events: [event] });
  const decided = { kind: 'decided', events: 1, duplicates: 0, conflicts: [] } as const;
  const server = await startTestServer({
    ledger,
    views: {
      settings: () => settings,
      discovery: quietDiscovery({ tenants: () => [testTenant('acme')] }),
      destinations: {
        ...quiet.destinations,
        operations: {
          ...quiet.destinations.operations,
          replay: () =>
            note('replay', { kind: 'replayed', replayed: 1, stillRejected: 0, pending: 0 }),
          discard: () => note('discard', { kind: 'discarded', discarded: 1 }),
          moveCursor: () => note('cursor', { kind: 'moved', sequence: 0, warnings: [] }),
        },
      },
      enforcement: {
        ...quiet.enforcement,
        setManual: () => note('billing state', { kind: 'written' }),
        clearManual: () => note('billing state', { kind: 'written' }),
      },
      held: {
        push: async (events) => ({
          kind: 'appended',
          held: new Map(),
          outcomes: await note(
            'push',
            events.map(() => 'accepted' as const),
          ),
        }),
        list: () => [],
        eventsOf: async function* none() {},
        pushedTenants: () => [],
        release: () => note('release', decided),
        rename: () => note('rename', decided),
        discard: () => note('discard', decided),
      },
      access: { of: () => ({ kind: 'answered', hasAccess: true, state: 'active', staleMs: 0 }) },
      credits: {
        ...quiet.credits,
        add: (request) =>
          note('credit', {
            kind: 'credited',
            credit: { ...request, at: NOW, countsFrom: NOW },
            isNew: true,
          }),
      },
    },
  });
  const call = (operation: string, body: unknown) => {
    const [method = ''] = operation.split(' ', 1);
    const [path] = CHANGES[operation] ?? [''];
    const token = path === '/api/v1/events' ? INGEST_TOKEN : API_TOKEN;
    return server.call(method, path, { token, body });
  };
  return { server, call, done, [Symbol.asyncDispose]: () => server.close() };
}

test('an operation that changes something is missing here', () => {
  const changing = document.operations.filter((operation) => !operation.startsWith('GET '));
  expect([...Object.keys(CHANGES), OF_VENDORS].toSorted()).toStrictEqual(changing.toSorted());
});

test.each(Object.entries(CHANGES))(
  'a field that %s does not know, such as dry_run, is ignored and the change carried out',
  async (operation, [, body]) => {
    await using world = await start();
    const { call, done, server } = world;
    const head = server.ledger.head();
    const refused = await call(operation, { ...body, dry_run: true });
    expect([refused.status, refused.text]).toStrictEqual([
      400,
      expect.stringMatching(/unknown field: \\"dry_run\\"|this path takes none/),
    ]);
    expect(done).toStrictEqual([]);
    expect(server.ledger.head()).toBe(head);
    expect(server.log.filter((line) => line.includes('an operator'))).toStrictEqual([]);
    expect(document.takes(operation, { ...body, dry_run: true })).toBe(false);
    const taken = await call(operation, body);
    expect([taken.status, taken.text]).toStrictEqual([
      expect.toSatisfy((status: number) => status < 300),
      expect.any(String),
    ]);
    expect(document.takes(operation, body)).toBe(body !== undefined);
  },
);

test('a misspelt field of a pushed event is dropped without a word', async () => {
  await using world = await start();
  const { json } = await world.call('POST /api/v1/events', [
    PUSHED,
    { ...PUSHED, dimension: {}, cost: 1 },
  ]);
  expect(json).toMatchObject({
    accepted: 2,
    warnings: [{ index: 1, warning: expect.stringContaining('"dimension, cost": ignored') }],
  });
});

const TIMES = [
  '2026-11-21',
  '2026-11-21T00:00:00Z',
  '2026-11-21t00:00:00.000z',
  '2026-11-21T02:00:00+02:00',
  '2026-11-21T00:00:00',
  '2026-11-21 00:00:00Z',
  '2026-11',
  '2026',
  '20261121',
  'yesterday',
  '1795219200',
];

test.each([
  ['GET /api/v1/usage', 'from', (text: string) => `/api/v1/usage?from=${text}`],
  ['GET /api/v1/usage', 'to', (text: string) => `/api/v1/usage?from=2026-11-01&to=${text}`],
  ['GET /api/v1/reconcile', 'from', (text: string) => `/api/v1/reconcile?from=${text}`],
  ['GET /api/v1/reconcile', 'to', (text: string) => `/api/v1/reconcile?from=2026-11-01&to=${text}`],
  ['GET /api/v1/months/{month}', 'month', (text: string) => `/api/v1/months/${text}`],
  [
    'GET /api/v1/destinations/{name}/plan',
    'day',
    (text: string) => `/api/v1/destinations/lago/plan?day=${text}`,
  ],
])(
  'the document of %s allows another %s than the operator takes',
  async (operation, name, path) => {
    await using world = await start();
    for (const text of TIMES) {
      const { status } = await world.server.call('GET', path(encodeURIComponent(text)), {
        token: API_TOKEN,
      });
      expect([text, document.takesParameter(operation, name, text)]).toStrictEqual([
        text,
        status !== 400,
      ]);
    }
  },
);

test.each([
  ['POST /api/v1/tenants/{tenant}/credits', { key: 'a', amount: '1' }],
  [
    'POST /api/v1/tenants/{tenant}/credits',
    { key: 'a', amount: '1', currency: 'EUR', metric: 'tokens_used' },
  ],
  ['POST /api/v1/destinations/{name}/dead-letters/discard', {}],
  ['POST /api/v1/destinations/{name}/dead-letters/discard', { ids: ['e-1'], all: true }],
  ['POST /api/v1/destinations/{name}/dead-letters/replay', { force: true }],
])(
  '%s takes neither or both of two fields that exclude each other: %j',
  async (operation, body) => {
    await using world = await start();
    expect((await world.call(operation, body)).status).toBe(400);
    expect(document.takes(operation, body)).toBe(false);
    expect(world.done).toStrictEqual([]);
  },
);
