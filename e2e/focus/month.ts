import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  API_TOKEN as token,
  quietDiscovery,
  startTestServer,
  testCluster,
  testSettings,
  testTenant,
} from '../../operator/http/testing/test-server.ts';
import { createMemoryLedger } from '../../operator/ledger/testing/memory-ledger.ts';
import { parseDecimal } from '../../operator/model/decimal.ts';
import { correctionOf } from '../../operator/model/correction.ts';
import { deriveEventId } from '../../operator/model/event-id.ts';
import { type EventIdentity, SCHEMA_VERSION, type UsageEvent } from '../../operator/model/event.ts';
import { bookOf, flat, priceOf, tiered } from '../../operator/model/pricing/testing/price-books.ts';
import { formatInstant } from '../../operator/model/window.ts';

const OCTOBER = Date.UTC(2026, 9);
const HOUR = 3_600_000;
const GPU = 'tenant_gpu_hours';

const BOOK = bookOf([
  priceOf(GPU, tiered('graduated', [[3, 2.4]], 2.1, 1), {
    name: 'h100-spot',
    match: { sku: 'h100', capacity_type: 'spot' },
  }),
  priceOf('tenant_cpu_core_hours', tiered('volume', [[10, 0.04]], 0.03)),
  priceOf('tenant_storage_gb_hours', flat(0)),
  priceOf('tenant_lb_hours', flat(0.333)),
  priceOf('tokens_used', flat(0.000001)),
]);

function event(
  metric: string,
  unit: string,
  quantity: string,
  hour: number,
  change: Partial<EventIdentity> = {},
): UsageEvent {
  const identity: EventIdentity = {
    tenant: 'acme',
    metric,
    window_start: formatInstant(OCTOBER + hour * HOUR),
    window_end: formatInstant(OCTOBER + hour * HOUR + 60_000),
    region: 'eu-1',
    dimensions: { tenant_cluster: 'tc-1' },
    ...change,
  };
  const decimal = parseDecimal(quantity);
  if (decimal === undefined) throw new Error(`quantity: not a decimal: "${quantity}"`);
  return {
    schema_version: SCHEMA_VERSION,
    id: deriveEventId(identity),
    ...identity,
    quantity: decimal,
    unit,
    recorded_at: formatInstant(OCTOBER + hour * HOUR + 63_000),
    source: 'collector',
  };
}

const SPOT = {
  sku: 'h100',
  project: 'research',
  dimensions: {
    tenant_cluster: 'tc-1',
    zone: 'eu-1a',
    tenant_class: 'gold',
    capacity_type: 'spot',
  },
};

/** Every kind of row: free, tiers, all units at one price, corrected, rounded, pushed, without a project. */
function events(): readonly UsageEvent[] {
  const node = event(GPU, 'gpu-hours', '5.5', 26, { ...SPOT, resource_id: 'node-7' });
  return [
    event('tenant_instance_hours', 'hours', '1', 0),
    event(GPU, 'gpu-hours', '3.25', 1, SPOT),
    node,
    event('tenant_cpu_core_hours', 'core-hours', '8.123456789', 2),
    event('tenant_cpu_core_hours', 'core-hours', '7', 700),
    event('tenant_storage_gb_hours', 'gib-hours', '12.5', 3, { sku: 'fast' }),
    event('tenant_lb_hours', 'hours', '1', 4, { dimensions: { tenant_cluster: 'tc-2' } }),
    event('tenant_gpu_downtime_hours', 'gpu-hours', '2', 5, { sku: 'h100' }),
    event('tokens_used', 'tokens', '123456', 6, {
      tenant: 'burst',
      resource_id: 'gateway',
      dimensions: { model: '=cmd|"calc"!A1, é' },
    }),
    correctionOf({ event: node, sequence: 3 }, 1, -2_250_000_000n, '2026-10-28T00:00:00Z', {
      reason: 'faulty node',
      author: 'ann',
    }),
  ];
}

/** The FOCUS file and the manifest of a closed month, as the API gives them. */
export async function focusMonth(): Promise<{ readonly csv: string; readonly manifest: unknown }> {
  const ledger = createMemoryLedger();
  await ledger.append({ events: events(), windowEnd: Date.UTC(2026, 10) });
  const usageDirectory = await mkdtemp(join(tmpdir(), 'focus-month-'));
  const settings = {
    ...testSettings(),
    pricing: { books: [BOOK] },
    focus: {
      provider: 'Example Cloud',
      hostProvider: 'Metal Inc',
      services: [{ metric: 'tokens_used', name: 'Models', subcategory: 'Generative AI' }],
    },
  };
  const discovery = quietDiscovery({
    tenants: () => [testTenant('acme', { displayName: 'Acme "Ltd"' }), testTenant('burst')],
    clusters: () => [{ ...testCluster('tc-1', settings), tenant: 'acme', name: 'training' }],
  });
  await using server = await startTestServer({
    ledger,
    usageDirectory,
    views: { settings: () => settings, discovery },
  });
  const path = '/api/v1/focus?month=2026-10&format=';
  const csv = await server.call('GET', `${path}csv`, { token });
  const manifest = await server.call('GET', `${path}manifest`, { token });
  await server.close();
  await rm(usageDirectory, { recursive: true });
  return { csv: csv.text, manifest: manifest.json };
}
