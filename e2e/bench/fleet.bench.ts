import { availableParallelism, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { type FleetFigures, type FleetPlan, measureFleet } from './fleet/measure.ts';

/**
 * A fleet on one machine: the meters of many clusters, whose windows all end at the same instant, one PostgreSQL that syncs to
 * the disk, one hub as a process of its own and a webhook. Each number of streams has a new database; the last one is measured
 * for all the minutes, those before it, which show the growth, for three.
 */
const { values } = parseArgs({
  options: {
    streams: { type: 'string', default: '1,10,25,50' },
    tenants: { type: 'string', default: '1000' },
    /** Of each tenant in a minute. */
    metrics: { type: 'string', default: '10' },
    minutes: { type: 'string', default: '10' },
    /** Seconds over which the clusters close each window, as with a settlingDelay of their own each; 0: all at once. */
    spread: { type: 'string', default: '0' },
    seed: { type: 'string', default: '1' },
    /** Megabytes of heap of the hub, instead of what the installation gives it. */
    heap: { type: 'string' },
  },
});
const MOST_METRICS = 10;
const MOST_SPREAD = 45;
const SHORT_MINUTES = 3;
const tenants = positive('tenants', values.tenants);
const metrics = Math.min(MOST_METRICS, positive('metrics', values.metrics));
const minutes = positive('minutes', values.minutes);
const seed = positive('seed', values.seed);
const spread = values.spread === '0' ? 0 : Math.min(MOST_SPREAD, positive('spread', values.spread));
const sizes = values.streams.split(',').map((text) => positive('streams', text));

const table: Record<string, Record<string, number>> = {};
for (const [index, streams] of sizes.entries()) {
  const isLast = index === sizes.length - 1;
  const plan = {
    streams,
    tenants,
    metrics,
    spreadMs: spread * 1_000,
    seed,
    ...(values.heap !== undefined && { heapMiB: positive('heap', values.heap) }),
    minutes: isLast ? minutes : Math.min(SHORT_MINUTES, minutes),
  };
  const figures = await measureFleet(plan);
  report(plan, figures);
  table[`${streams} streams`] = {
    'events a minute': streams * tenants * metrics,
    'kept up': figures.keptUp / figures.windows,
    'append p99 s': rounded(figures.appendP99Seconds),
    'lag p50 s': rounded(figures.lagP50Seconds),
    'lag p99 s': rounded(figures.lagP99Seconds),
    'from window end p99 s': rounded(figures.fromWindowEndP99Seconds),
    'events/s': rounded(figures.eventsPerSecond),
    'database s/1,000': rounded(figures.databasePerThousand),
    'hub s/1,000': rounded(figures.hubPerThousand),
    'idle database s/min': rounded(figures.idleDatabasePerMinute),
    'idle hub s/min': rounded(figures.idleHubPerMinute),
    connections: figures.connections,
    'hub MiB': rounded(figures.hubMiB),
  };
}
console.table(table);

function report({ streams, ...plan }: FleetPlan, figures: FleetFigures): void {
  const load = loadavg()[0] ?? 0;
  const of = `${streams} streams of ${plan.tenants} tenants with ${plan.metrics} metrics${spread > 0 ? ` closed over ${spread} s` : ''}, ${plan.minutes} minutes, ${availableParallelism()} cores, load ${load.toFixed(1)}`;
  const print = (figure: string, value: number | readonly number[], unit: string): void =>
    console.log(JSON.stringify({ bench: 'fleet', figure, value, unit, of }));
  const say = (figure: string, value: number, unit: string): void =>
    print(figure, rounded(value), unit);
  say('keeps_up', figures.keptUp / figures.windows, 'share of windows');
  print('window_seconds', figures.windowSeconds.map(rounded), 's');
  say('append_seconds_p99', figures.appendP99Seconds, 's');
  say('hub_lag_p50_seconds', figures.lagP50Seconds, 's');
  say('hub_lag_p99_seconds', figures.lagP99Seconds, 's');
  say('from_window_end_p99_seconds', figures.fromWindowEndP99Seconds, 's');
  say('events_per_second', figures.eventsPerSecond, 'events/s');
  say('database_cpu_per_1000', figures.databasePerThousand, 's');
  say('hub_cpu_per_1000', figures.hubPerThousand, 's');
  say('idle_database_cpu_per_minute', figures.idleDatabasePerMinute, 's');
  say('idle_hub_cpu_per_minute', figures.idleHubPerMinute, 's');
  say('bytes_per_event', figures.bytesPerEvent, 'bytes');
  say('connections', figures.connections, 'connections');
  say('hub_rss', figures.hubMiB, 'MiB');
  say('provisioning_seconds', figures.provisioningSeconds, 's');
  say('lost', figures.lost, 'events');
  say('twice', figures.twice, 'events');
}

function rounded(value: number): number {
  return Number(value.toPrecision(3));
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new Error(`fleet: --${name}: not a whole number above 0: "${text}"`);
}
