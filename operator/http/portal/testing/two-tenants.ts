import { createMemoryLedger } from '../../../ledger/testing/memory-ledger.ts';
import { testEvent } from '../../../ledger/testing/events.ts';
import type { Ledger } from '../../../ledger/ledger.ts';
import type { UsageEvent } from '../../../model/event.ts';
import { bookOf, flat, priceOf } from '../../../model/pricing/testing/price-books.ts';
import { gpuShare, gpuWriter } from '../../testing/gpus.ts';
import {
  API_TOKEN,
  NOW,
  quietDiscovery,
  quietViews,
  startTestServer,
  testCluster,
  testSettings,
  testTenant,
  type TestServer,
} from '../../testing/test-server.ts';
import type { Gap } from '../../views.ts';
import { newKey } from './keys.ts';

/** In everything of other tenants, and in nothing of ours. */
export const CANARY = 'kanari';
export const OWN = 'acme';
/** Other tenants, with names that some way of writing or comparing might take for ours. */
export const FOREIGN: readonly string[] = [
  'kanari-globex',
  'ACME',
  'acme ',
  ' acme',
  'acme/',
  'acme/../acme',
  'acme%',
  'acme%00',
  'acme\u0000',
  'acme,acme',
  'acme|kanari',
  'acme"',
  'a\u0063me\u0301',
  'acme-2',
  'acm',
  '*',
  'ａｃｍｅ',
  '__proto__',
  'constructor',
  // What no tenant has of GPUs is called so.
  'unassigned',
];
export const KEY = newKey();
export const OLD_KEY = newKey('p256');

const HOUR = 3_600_000;

/** Events of our tenant and of the others, the same hours and metrics. */
function events(): readonly UsageEvent[] {
  return Array.from({ length: 6 }, (_, hour) => NOW - (hour + 1) * HOUR).flatMap((windowStart) => [
    testEvent({ tenant: OWN, windowStart, quantity: '1', sku: 'own-sku' }),
    ...FOREIGN.map((tenant) => ({
      ...testEvent({ tenant, windowStart, quantity: '7', sku: `${CANARY}-sku` }),
      project: `${CANARY}-project`,
      source: `ingest:${CANARY}`,
      dimensions: { tenant_cluster: `${CANARY}-${tenant}`, theirs: `${CANARY}-value` },
    })),
  ]);
}

export interface TwoTenants extends AsyncDisposable {
  readonly server: TestServer;
  readonly ledger: Ledger;
  readonly ids: { readonly own: readonly string[]; readonly foreign: readonly string[] };
  /** A new token of a tenant. */
  mint(
    tenant?: string,
    validFor?: string,
  ): Promise<{ readonly id: string; readonly token: string }>;
}

/** A server with one tenant and what it must never see of others; `own` and its token are good. */
export async function twoTenants(
  environment: Readonly<Record<string, string>> = {},
  ledger: Ledger = createMemoryLedger(),
): Promise<TwoTenants> {
  const all = events();
  if (ledger.head() === 0) {
    await ledger.append({ events: all, windowEnd: NOW });
    await gpuWriter(ledger).shares(NOW - HOUR, [
      gpuShare(OWN, 'own-gpu', [2, 2, 2, 1]),
      ...FOREIGN.map((tenant) => gpuShare(tenant, `${CANARY}-gpu`, [7, 7, 7, 7])),
      gpuShare(undefined, 'own-gpu', [1, 1, 0, 0, 3]),
      gpuShare(undefined, `${CANARY}-gpu`, [7, 7, 0, 0, 7 * (FOREIGN.length + 1)]),
    ]);
  }
  const base = testSettings({ PORTAL_KEYS: `${KEY}${OLD_KEY}`, ...environment });
  const books = [bookOf([priceOf('tenant_instance_hours', flat(1))])];
  const settings = { ...base, pricing: { books } };
  const cluster = (tenant: string, id: string) => ({
    ...testCluster(id, settings),
    tenant,
    displayName: 'main',
    overrides: [`${CANARY}-override`],
  });
  const tenants = [
    testTenant(OWN, { clusters: ['own-cluster'] }),
    ...FOREIGN.map((tenant) => testTenant(tenant, { plan: `${CANARY}-plan` })),
  ];
  const gap = (scope: string): Gap => {
    const stretch = { from: NOW - 2 * HOUR, to: NOW - HOUR };
    return { source: 'metrics', scope, ...stretch, reason: `${CANARY}: connect ECONNREFUSED` };
  };
  const gaps = ['*', 'own-cluster', `${CANARY}-cluster`, `${CANARY}-gone`].map(gap);
  const quiet = quietViews(() => settings);
  const server = await startTestServer({
    ledger,
    views: {
      settings: () => settings,
      discovery: quietDiscovery({
        tenants: () => tenants,
        clusters: () => [
          cluster(OWN, 'own-cluster'),
          ...FOREIGN.map((tenant) => cluster(tenant, `${CANARY}-${tenant}`)),
          cluster('kanari-globex', `${CANARY}-cluster`),
        ],
        problems: () => [CANARY],
      }),
      metering: { ...quiet.metering, gaps: () => gaps },
      explanations: {
        find: async ({ id }) => ({
          kind: 'found',
          explanation: {
            id,
            measured: 1,
            carried: 0,
            givenBack: 0,
            addsUp: true,
            subjects: [],
            nodes: [],
            shares: [],
            remainder: { count: 0, quantity: 0 },
          },
        }),
      },
    },
  });
  const idsOf = (isOwn: boolean): readonly string[] =>
    all.filter(({ tenant }) => (tenant === OWN) === isOwn).map(({ id }) => id);
  return {
    server,
    ledger,
    ids: { own: idsOf(true), foreign: idsOf(false) },
    mint: async (tenant = OWN, validFor = '1h') => {
      const answer = await server.call(
        'POST',
        `/api/v1/tenants/${encodeURIComponent(tenant)}/portal-tokens`,
        { token: API_TOKEN, body: { valid_for: validFor } },
      );
      if (answer.status !== 201) throw new Error(answer.text);
      return answer.json as { id: string; token: string };
    },
    [Symbol.asyncDispose]: () => server.close(),
  };
}
