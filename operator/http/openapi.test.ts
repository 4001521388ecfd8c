import { expect, test } from 'vitest';
import { Registry } from 'prom-client';
import { loadHeldUsage } from '../billing/held-usage/testing/held-usage.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { deriveEventId } from '../model/event-id.ts';
import type { UsageEvent } from '../model/event.ts';
import { dashboardPage, readAssets } from './dashboard/dashboard.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import { Portal } from './portal/portal.ts';
import { createRoutes } from './routes/routes.ts';
import { loadApiDocument } from './testing/api-document.ts';
import { quietViews, testClock, testSettings } from './testing/test-server.ts';

const document = loadApiDocument();

test('no route is without documentation, and nothing is documented that is not there', async () => {
  const settings = testSettings();
  const silent = () => undefined;
  const ledger = createMemoryLedger();
  const context = {
    version: '1.2.3',
    views: { ...quietViews(() => settings), held: await loadHeldUsage(ledger) },
    ledger,
    clock: testClock,
    logger: { debug: silent, info: silent, warn: silent, error: silent },
    metrics: new Registry(),
    limits: DEFAULT_LIMITS,
    portal: new Portal({
      keys: () => [],
      identity: () => settings.identity,
      ledger,
      clock: testClock,
    }),
    totals: () => undefined,
    stopping: () => false,
  };
  const routes = createRoutes(
    context,
    dashboardPage(readAssets(), () => false),
  );
  const served = routes.map(({ method, path }) => `${method.toUpperCase()} ${path}`);
  expect(served.toSorted()).toStrictEqual(document.operations);
});

test('the published example of an event has the id that its identity gives', () => {
  const [example] = document.examplesOf('UsageEvent') as UsageEvent[];
  if (example === undefined) throw new Error('no example');
  expect(example.id).toBe(deriveEventId(example));
});

test('an answer that the document does not allow is noticed', () => {
  const answer = {
    method: 'GET',
    path: '/api/v1/catalog',
    status: 200,
    contentType: 'application/json; charset=utf-8',
  };
  const error = { ...answer, status: 404, text: '{"error":"x"}' };
  expect(() => document.check(error)).not.toThrow();
  for (const wrong of [
    { ...answer, text: '{"schema_version":"svc.usage/v1"}' },
    { ...error, text: '{"error":"x","secret":"y"}' },
    { ...error, contentType: 'text/html' },
  ]) {
    expect(() => document.check(wrong)).toThrow('GET /api/v1/catalog');
  }
});
