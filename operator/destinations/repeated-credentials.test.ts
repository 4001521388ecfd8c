import { afterAll, beforeAll, expect, test } from 'vitest';
import { Secret } from '../model/secret.ts';
import type { DestinationSettings } from '../settings/settings.ts';
import { testEvent } from '../ledger/testing/events.ts';
import {
  type ReceivedRequest,
  startTestServer,
  type HttpTestServer,
} from '../outbound/testing/test-server.ts';
import { COLLECTOR_METRICS } from '../model/catalog.ts';
import { createDestinationRegistry } from './registry.ts';
import { createTestContext, testTenant } from './testing/context.ts';

const CANARY = 'sk_test_canary4f1d';

let server: HttpTestServer;
let status = 400;

/** Returns the request's own headers, for the texts of error answers. */
function repeated({ headers }: ReceivedRequest): string {
  const stated = `you sent ${JSON.stringify(headers)} and ${headers.authorization ?? ''}`;
  const error = { message: stated, code: stated, type: stated, param: stated };
  return JSON.stringify({
    error,
    message: stated,
    code: stated,
    status,
    error_details: { key: [stated] },
  });
}

beforeAll(async () => {
  server = await startTestServer((request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(repeated(request));
  });
});

afterAll(() => server.close());

function settingsOf(type: 'lago' | 'stripe' | 'metronome'): DestinationSettings {
  const common = { name: type, suspend: false, startFrom: 'earliest' } as const;
  const url = server.url;
  const key = new Secret(CANARY);
  const money = { planCode: 'standard', currency: 'EUR' };
  if (type === 'lago') return { ...common, type, options: { url, apiKey: key, ...money } };
  if (type === 'metronome') {
    const options = { url, apiToken: key, rateCard: 'standard', currency: 'EUR' };
    return { ...common, type, options };
  }
  const options = {
    url,
    apiKey: key,
    apiVersion: '2026-09-30.endive',
    splitMetersBy: ['sku'],
    autoSubscribe: true,
    cancelOnRemove: true,
    maxRequestsPerSecond: 0,
    ...money,
  };
  return { ...common, type, options };
}

const TYPES = ['lago', 'stripe', 'metronome'] as const;
const STATUSES = [400, 401, 403, 404, 405, 409, 422, 429, 500];

test.each(TYPES.flatMap((type) => STATUSES.map((code) => [type, code] as const)))(
  '%s repeats the credential in an answer %i: it is in no outcome and in no log line',
  async (type, code) => {
    status = code;
    const context = createTestContext();
    const made = createDestinationRegistry(context)(settingsOf(type));
    if (made.kind !== 'created') throw new Error(made.reason);
    const { destination } = made;
    const { signal } = new AbortController();
    const tenant = testTenant();
    const query = { tenant, metric: 'tenant_instance_hours', from: 0, to: 86_400_000 };
    const requested = server.requests.length;
    const outcomes = [
      await destination.bootstrap(COLLECTOR_METRICS, signal),
      await destination.customers?.provision(tenant, signal),
      await destination.send([testEvent()], signal),
      await destination.customers?.offboard(tenant, signal),
      await destination.sums?.total(query, signal),
      await destination.alerts?.tenantsOf?.(type, 'customer', signal),
    ];
    await destination.close();
    expect(server.requests.length).toBeGreaterThan(requested);
    const all = JSON.stringify([
      outcomes,
      destination.alerts?.lateRefusals?.(),
      context.logger.lines,
    ]);
    expect(all).not.toContain('canary');
  },
);
