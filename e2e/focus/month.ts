import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { FocusExport } from '../../operator/app/focus-export.ts';
import { Summing } from '../../operator/billing/usage/summing.ts';
import {
  API_TOKEN as token,
  type CallResult,
  quietDiscovery,
  quietViews,
  startTestServer,
  testCluster,
  testSettings,
  testTenant,
} from '../../operator/http/testing/test-server.ts';
import type { Views } from '../../operator/http/views.ts';
import type { Ledger } from '../../operator/ledger/ledger.ts';
import { LevelRollups } from '../../operator/ledger/leveldb/level-rollups.ts';
import { createMemoryLedger } from '../../operator/ledger/testing/memory-ledger.ts';
import { parseDecimal } from '../../operator/model/decimal.ts';
import { correctionOf } from '../../operator/model/correction.ts';
import { deriveEventId } from '../../operator/model/event-id.ts';
import { type EventIdentity, SCHEMA_VERSION, type UsageEvent } from '../../operator/model/event.ts';
import { bookOf, flat, priceOf, tiered } from '../../operator/model/pricing/testing/price-books.ts';
import { formatInstant } from '../../operator/model/window.ts';
import { createOutbound } from '../../operator/outbound/outbound.ts';
import type { FocusExportSettings } from '../../operator/settings/settings.ts';
import { systemClock } from '../../operator/telemetry/system-clock.ts';

/** The month of the answers of the API. */
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
  month: number,
  metric: string,
  unit: string,
  quantity: string,
  hour: number,
  change: Partial<EventIdentity> = {},
): UsageEvent {
  const identity: EventIdentity = {
    tenant: 'acme',
    metric,
    window_start: formatInstant(month + hour * HOUR),
    window_end: formatInstant(month + hour * HOUR + 60_000),
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
    recorded_at: formatInstant(month + hour * HOUR + 63_000),
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
function events(month: number): readonly UsageEvent[] {
  const one = (...rest: Parameters<typeof event> extends [number, ...infer R] ? R : never) =>
    event(month, ...rest);
  const node = one(GPU, 'gpu-hours', '5.5', 26, { ...SPOT, resource_id: 'node-7' });
  return [
    one('tenant_instance_hours', 'hours', '1', 0),
    one(GPU, 'gpu-hours', '3.25', 1, SPOT),
    node,
    one('tenant_cpu_core_hours', 'core-hours', '8.123456789', 2),
    one('tenant_cpu_core_hours', 'core-hours', '7', 700),
    one('tenant_storage_gb_hours', 'gib-hours', '12.5', 3, { sku: 'fast' }),
    one('tenant_lb_hours', 'hours', '1', 4, { dimensions: { tenant_cluster: 'tc-2' } }),
    one('tenant_gpu_downtime_hours', 'gpu-hours', '2', 5, { sku: 'h100' }),
    one('tokens_used', 'tokens', '123456', 6, {
      tenant: 'burst',
      resource_id: 'gateway',
      dimensions: { model: '=cmd|"calc"!A1, é' },
    }),
    correctionOf(
      { event: node, sequence: 3 },
      1,
      -2_250_000_000n,
      formatInstant(month + 27 * 24 * HOUR),
      {
        reason: 'faulty node',
        author: 'ann',
      },
    ),
  ];
}

/** A ledger with a month, of which every window is closed, and what its operator knows. */
async function monthAt(
  month: number,
  downtime = false,
): Promise<{
  readonly ledger: Ledger;
  readonly views: Pick<Views, 'settings' | 'discovery'>;
}> {
  const ledger = createMemoryLedger();
  await ledger.append({ events: events(month), windowEnd: month + 31 * 24 * HOUR });
  const settings = {
    ...testSettings(),
    pricing: { books: [BOOK] },
    focus: {
      provider: 'Example Cloud',
      hostProvider: 'Metal Inc',
      downtime,
      services: [{ metric: 'tokens_used', name: 'Models', subcategory: 'Generative AI' }],
    },
  };
  const discovery = quietDiscovery({
    tenants: () => [testTenant('acme', { displayName: 'Acme "Ltd"' }), testTenant('burst')],
    clusters: () => [{ ...testCluster('tc-1', settings), tenant: 'acme', name: 'training' }],
  });
  return { ledger, views: { settings: () => settings, discovery } };
}

/** What the API answers to some paths about October. */
export async function answersOfOctober(
  paths: readonly string[],
  downtime = false,
): Promise<readonly Pick<CallResult, 'text' | 'json'>[]> {
  const { ledger, views } = await monthAt(OCTOBER, downtime);
  const usageDirectory = await mkdtemp(join(tmpdir(), 'focus-month-'));
  await using server = await startTestServer({ ledger, usageDirectory, views });
  const answers: CallResult[] = [];
  for (const path of paths) answers.push(await server.call('GET', `/api/v1/${path}`, { token }));
  await server.close();
  await rm(usageDirectory, { recursive: true });
  return answers;
}

/** The FOCUS files and the manifest of a closed month, as the API gives them. `csv14` has the columns of 1.4. */
export async function focusMonth(downtime = false): Promise<{
  readonly csv: string;
  readonly csv14: string;
  readonly manifest: unknown;
}> {
  const path = 'focus?month=2026-10';
  const paths = [path, `${path}&version=1.4`, `${path}&format=manifest`];
  const [csv, csv14, manifest] = await answersOfOctober(paths, downtime);
  return { csv: csv?.text ?? '', csv14: csv14?.text ?? '', manifest: manifest?.json };
}

/** Writes the same usage as that of the last month where the settings say. Returns the problem, if there is one. */
export async function exportLastMonth(
  settings: FocusExportSettings,
): Promise<{ readonly month: string; readonly problem: string | undefined }> {
  const now = new Date();
  const month = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1);
  const { ledger, views } = await monthAt(month);
  const directory = await mkdtemp(join(tmpdir(), 'focus-export-'));
  const clock = systemClock;
  const logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const rollups = new LevelRollups(directory);
  const summing = new Summing({ ledger, rollups, clock, logger });
  await summing.open();
  const registry = new Registry();
  const outbound = createOutbound({ registry, clock, userAgent: 'meterfeed/1.2.3' });
  const focus = new FocusExport({
    views: { ...quietViews(views.settings), ...views },
    ledger,
    totals: () => summing.totals,
    clock,
    outbound,
    version: '1.2.3',
    logger,
    registry,
    mayAct: () => true,
    closeMonth: (month, signal) => summing.closeMonth(month, signal),
  });
  const problem = await focus.pass(settings, new AbortController().signal);
  await summing.close();
  await rm(directory, { recursive: true });
  return { month: formatInstant(month).slice(0, 7), problem };
}
