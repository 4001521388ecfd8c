import { Registry } from 'prom-client';
import { FocusExport } from '../../operator/app/focus-export.ts';
import { Summing } from '../../operator/billing/usage/summing.ts';
import {
  quietDiscovery,
  quietViews,
  testSettings,
  testTenant,
} from '../../operator/http/testing/test-server.ts';
import { openLevelLedger } from '../../operator/ledger/leveldb/open-level-ledger.ts';
import { bookOf, flat, priceOf } from '../../operator/model/pricing/testing/price-books.ts';
import { createOutbound } from '../../operator/outbound/outbound.ts';
import { systemClock } from '../../operator/telemetry/system-clock.ts';

/**
 * A process that sums the ledger in a directory and writes its November as Parquet to another one. It
 * goes on where an earlier one was killed. Prints its processor time in seconds.
 */
const [directory = '', out = '', tenants = ''] = process.argv.slice(2);
const clock = { ...systemClock, now: () => Date.UTC(2026, 11, 7) };
const logger = { debug: () => {}, info: () => {}, warn: console.error, error: console.error };
const opened = await openLevelLedger({ directory, retentionMs: 40 * 86_400_000, clock, logger });
if (opened.kind === 'failed') throw new Error(opened.message);
const { ledger, rollups } = opened;
const books = ['cpu_core', 'memory_gb', 'storage_gb', 'instance', 'lb'].map((name, index) =>
  priceOf(`tenant_${name}_hours`, flat(0.01 * (index + 1))),
);
const settings = { ...testSettings(), pricing: { books: [bookOf(books)] } };
const discovery = quietDiscovery({
  tenants: () => tenants.split(',').map((id) => testTenant(id)),
});
const registry = new Registry();
const summing = new Summing({ ledger, rollups, clock, logger });
await summing.open();
const focus = new FocusExport({
  views: { ...quietViews(() => settings), discovery },
  ledger,
  totals: () => summing.totals,
  clock,
  version: '0.0.0',
  logger,
  registry,
  outbound: createOutbound({ registry, clock, userAgent: 'meterfeed/bench' }),
  mayAct: () => true,
  closeMonth: (month, signal) => summing.closeMonth(month, signal),
});
const problem = await focus.pass(
  { format: 'parquet', grain: 'hour', version: '1.2', target: { kind: 'directory', path: out } },
  new AbortController().signal,
);
if (problem !== undefined) throw new Error(problem);
await summing.close();
await ledger.close();
const { userCPUTime, systemCPUTime } = process.resourceUsage();
console.log((userCPUTime + systemCPUTime) / 1e6);
