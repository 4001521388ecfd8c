/**
 * The intake over a ledger on disk, in a process that the suite kills. Its clock runs fast, so that
 * windows are closed all the time.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { loadHeldUsage } from '../../../operator/billing/held-usage/testing/held-usage.ts';
import { Intake } from '../../../operator/intake/intake.ts';
import { openTestLedger, silentLogger } from '../../../operator/ledger/testing/level-ledger.ts';
import type { Ledger } from '../../../operator/ledger/ledger.ts';
import { openPostgresLedger } from '../../../operator/ledger/postgres/open-postgres-ledger.ts';
import { postgresOptions } from '../../../operator/ledger/testing/postgres-options.ts';
import type { UsageEvent } from '../../../operator/model/event.ts';
import { seriesOf } from '../../../operator/intake/entry.ts';
import { type Answer, HOUR_TAKES_MS, type Order, processTime, type Start } from './messages.ts';

const HOUR_MS = 3_600_000;
const FASTER = HOUR_MS / HOUR_TAKES_MS;

const start = JSON.parse(process.argv[2] ?? '') as Start;
const clock = {
  now: () => processTime(start),
  monotonic: () => performance.now(),
  sleep: (ms: number, signal?: AbortSignal) => sleep(Math.ceil(ms / FASTER), undefined, { signal }),
};
const ledger = await openLedger();
const held = await loadHeldUsage(ledger, {
  clock,
  isDiscovered: (tenant) => !tenant.startsWith('stranger'),
});
const intake = new Intake({
  ledger,
  held,
  clock,
  logger: { ...silentLogger, error: (text) => process.stderr.write(`${text}\n`) },
  region: 'eu-1',
  unitOf: (metric) => (metric === 'tenant_inference_tokens' ? 'tokens' : 'requests'),
  windowMs: () => HOUR_MS,
  lateForMs: () => start.lateForMs,
});
await intake.load();
process.on('message', (order: Order) => void answer(order).then(send));
process.once('disconnect', () => process.exit(0));
send({ kind: 'ready' });
void intake.run(new AbortController().signal);

async function openLedger(): Promise<Ledger> {
  // Segments begin while requests are accepted.
  const segmentLimits = { events: 50, bytes: Number.MAX_SAFE_INTEGER };
  if (start.database === undefined) return openTestLedger(start.directory, { segmentLimits });
  const outcome = await openPostgresLedger(postgresOptions(start.database));
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  return outcome.ledger;
}

function send(message: Answer): void {
  process.send?.(message);
}

async function answer(order: Order): Promise<Answer> {
  if (order.kind === 'total') return total();
  const outcome = await intake.accept(order.requests, 'gateway');
  if (outcome.kind === 'failed') {
    return { kind: 'failed', body: order.body, message: outcome.message };
  }
  return { kind: 'taken', body: order.body, receptions: outcome.receptions };
}

/** Waits until every sum is an event. */
async function total(): Promise<Answer> {
  while (intake.stats().openSums > 0) await sleep(1);
  const sums = new Map<string, bigint>();
  const places = new Set<string>();
  let repeated = 0;
  for (const event of await allEvents()) {
    const { tenant, metric, quantity } = event;
    const key = `${tenant} ${metric}`;
    sums.set(key, (sums.get(key) ?? 0n) + BigInt(quantity));
    for (const place of placesOf(event)) {
      if (places.has(place)) repeated += 1;
      places.add(place);
    }
  }
  const entries = [...sums].map(([key, sum]) => [key, String(sum)] as const);
  return { kind: 'total', sums: Object.fromEntries(entries), repeated };
}

async function allEvents(): Promise<readonly UsageEvent[]> {
  const events: UsageEvent[] = [];
  for await (const { event } of ledger.scan(0, Number.MAX_SAFE_INTEGER)) events.push(event);
  for (const { tenant } of held.list()) {
    for await (const { event } of held.eventsOf(tenant)) events.push(event);
  }
  return events;
}

/** Texts that no two events may share. */
function placesOf(event: UsageEvent): readonly string[] {
  if (!event.id.startsWith('svc1_')) return [event.id];
  const series = seriesOf({ dimensions: {}, ...event });
  return [event.id, `${event.tenant} ${series} ${event.window_start}`];
}
