import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { loadEnvironment } from '../../operator/settings/load-environment.ts';
import { DESTINATIONS } from '../../operator/destinations/registry.ts';
import { createHttpServer } from '../../operator/http/server.ts';
import { quietDiscovery, quietViews, testTenant } from '../../operator/http/testing/test-server.ts';
import { loadHeldUsage } from '../../operator/billing/held-usage/testing/held-usage.ts';
import { openLevelLedger } from '../../operator/ledger/leveldb/open-level-ledger.ts';
import { parseDecimal } from '../../operator/model/decimal.ts';
import { deriveEventId } from '../../operator/model/event-id.ts';
import { type EventIdentity, SCHEMA_VERSION, type UsageEvent } from '../../operator/model/event.ts';
import { formatInstant } from '../../operator/model/window.ts';
import { bookOf, flat, priceOf } from '../../operator/model/pricing/testing/price-books.ts';
import { createLogger } from '../../operator/telemetry/create-logger.ts';
import { systemClock } from '../../operator/telemetry/system-clock.ts';
import { Summing } from '../../operator/billing/usage/summing.ts';
import { SumUpdater } from '../../operator/billing/usage/sum-updater.ts';
import { SumsStore } from '../../operator/billing/usage/sums-store.ts';

/** The operator of the portal bench: fills a ledger with days of many tenants, sums it up, and tells its parent the port. */
const [tenants = 0, days = 0, step = 1] = process.argv.slice(3).map(Number);
const [, , token = ''] = process.argv;
const HOUR_MS = 3_600_000;
const METRICS = ['tenant_gpu_hours', 'tenant_cpu_core_hours'];

/** Aborted when its parent has gone, however that has ended: nothing of it is to stay then, whatever it is at. */
const parent = new AbortController();
const { signal: gone } = parent;
process.once('disconnect', () => parent.abort());
if (!process.connected) parent.abort();

const directory = await mkdtemp(join(tmpdir(), 'meterfeed-bench-'));
const key = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
const loaded = loadEnvironment(
  {
    ADAPTERS: 'noop',
    LISTEN_ADDR: '127.0.0.1:0',
    API_TOKEN: token,
    PORTAL_KEYS: key.toString(),
  },
  DESTINATIONS,
);
if (loaded.kind !== 'loaded') throw new Error(JSON.stringify(loaded));
const books = [bookOf(METRICS.map((metric) => priceOf(metric, flat(2.5))))];
const settings = { ...loaded.settings, pricing: { books } };
const logger = createLogger({ level: 'warn', format: 'text', output: process.stderr });
const metrics = new Registry();
const clock = systemClock;
const opened = await openLevelLedger({
  directory: join(directory, 'ledger'),
  retentionMs: days * 24 * HOUR_MS,
  clock,
  logger,
  registry: metrics,
});
if (opened.kind === 'failed') throw new Error(opened.message);
const { ledger, rollups } = opened;
const all = Array.from({ length: tenants }, (_, index) => testTenant(`tenant-${index}`));
const MINUTE_MS = 60_000;
/** Before now: the page tells days by the hour that are no older, and hours by the window. */
const HOURLY_MS = 8 * 24 * HOUR_MS;
const FINE_MS = 3 * HOUR_MS;
const present = Math.floor(clock.now() / HOUR_MS) * HOUR_MS;
for (let start = present - days * 24 * HOUR_MS; start < present && !gone.aborted; ) {
  const length = start < present - FINE_MS ? HOUR_MS : MINUTE_MS;
  await ledger.append({ events: windowOf(start, start + length), windowEnd: start + length });
  start += start < present - HOURLY_MS ? step * HOUR_MS : length;
}
if (!gone.aborted) await serve();
await ledger.close();
await rm(directory, { recursive: true, force: true });
process.exit(0);

/** Answers until its parent has gone. */
async function serve(): Promise<void> {
  const store = new SumsStore(rollups, ledger.stats().ledgerId);
  await new SumUpdater({ ledger, store, clock, logger }).catchUp(gone);
  const summing = new Summing({ ledger, rollups, clock, logger });
  await summing.open();
  const server = createHttpServer({
    version: 'bench',
    views: {
      ...quietViews(() => settings),
      discovery: quietDiscovery({ tenants: () => all }),
      held: await loadHeldUsage(ledger),
    },
    ledger,
    clock,
    logger,
    metrics,
    totals: () => summing.totals,
  });
  const { main } = await server.listen(new AbortController().signal);
  if (!gone.aborted) {
    process.send?.(main.port);
    await once(gone, 'abort');
  }
  await server.close();
  await summing.close();
}

/** What all tenants used in one window. */
function windowOf(from: number, to: number): readonly UsageEvent[] {
  const [start, end] = [from, to].map(formatInstant);
  const hour = from / HOUR_MS;
  return all.flatMap(({ id: tenant }, index) =>
    METRICS.map((metric) => {
      const identity: EventIdentity = {
        tenant,
        metric,
        window_start: start ?? '',
        window_end: end ?? '',
        region: 'default',
        sku: `sku-${index % 7}`,
        dimensions: { tenant_cluster: `${tenant}-main`, capacity_type: 'on-demand' },
      };
      const quantity = parseDecimal(
        (((Math.floor(hour * 31) + index) % 997) / 100 + 0.01).toFixed(2),
      );
      if (quantity === undefined) throw new RangeError('quantity: not a decimal');
      return {
        schema_version: SCHEMA_VERSION,
        id: deriveEventId(identity),
        ...identity,
        quantity,
        unit: 'hours',
        recorded_at: end ?? '',
        source: 'collector',
      };
    }),
  );
}
