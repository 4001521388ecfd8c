import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { measureScale, type ScaleFigures } from './scale/measure.ts';
import type { Size } from './scale/population.ts';

/**
 * The operator as it is shipped, in a process of its own, against a streaming stand-in for a large
 * cluster's API server, while pods come, change and go. The given size, a tenth and a hundredth of
 * it, the smallest first, so that the growth can be seen. The basis is `usage`, which reads all pods
 * from the metrics API twice a window.
 */
const { values } = parseArgs({
  options: {
    tenants: { type: 'string', default: '1000' },
    pods: { type: 'string', default: '100000' },
    nodes: { type: 'string', default: '2000' },
    /** Seconds; a divisor of an hour. */
    window: { type: 'string', default: '60' },
    /** How many windows are measured at each size. */
    windows: { type: 'string', default: '2' },
    /** Changes a second at the full size; the smaller ones have as many fewer. */
    changes: { type: 'string', default: '75' },
    /** Pods that no tenant cluster has anything to do with, beside those at the full size: measured without and with them. */
    foreign: { type: 'string' },
    /** Megabytes of heap, instead of what the installation gives it: for sizes beyond those it is meant for. */
    heap: { type: 'string', default: '0' },
    /** Leaves the smaller sizes out, and with them the marginal figures. */
    single: { type: 'boolean', default: false },
  },
});
const full: Size = {
  tenants: positive('tenants', values.tenants),
  pods: positive('pods', values.pods),
  nodes: positive('nodes', values.nodes),
};
const windowSeconds = positive('window', values.window);
const windows = positive('windows', values.windows);
const changes = positive('changes', values.changes);
const heap = values.heap === '0' ? 0 : positive('heap', values.heap);
const foreign = values.foreign === undefined ? undefined : positive('foreign', values.foreign);

if (foreign !== undefined) {
  const without = { size: full, figures: await measure(full, changes, false) };
  report(full, without.figures);
  const size = { ...full, foreign };
  const figures = await measure(size, changes, false);
  report(size, figures);
  reportForeign(without.figures, figures, foreign);
  process.exit();
}

let before: { readonly size: Size; readonly figures: ScaleFigures } | undefined;
for (const part of values.single ? [1] : [100, 10, 1]) {
  const size = {
    tenants: Math.ceil(full.tenants / part),
    pods: Math.ceil(full.pods / part),
    nodes: Math.ceil(full.nodes / part),
  };
  const figures = await measure(size, changes / part, part === 1);
  report(size, figures);
  if (before !== undefined) reportGrowth(before, { size, figures });
  before = { size, figures };
}

async function measure(
  size: Size,
  changesPerSecond: number,
  restart: boolean,
): Promise<ScaleFigures> {
  const directory = await mkdtemp(join(tmpdir(), 'scale-bench-'));
  try {
    const environment: Record<string, string> =
      heap === 0 ? {} : { NODE_OPTIONS: nodeOptions(heap) };
    const options = { size, windowSeconds, windows, changesPerSecond, directory, restart };
    return await measureScale({ ...options, environment });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function report(size: Size, figures: ScaleFigures): void {
  const of = describe(size);
  const perWindow = `${of}, windows of ${windowSeconds} s`;
  print('window_close_seconds', figures.closeSeconds, 's', perWindow);
  print('window_measure_seconds', figures.measureSeconds, 's', perWindow);
  print('cpu_seconds_per_window', figures.cpuSecondsPerWindow, 's', perWindow);
  print('rss_mib', figures.rssPeakMiB, 'MiB', of);
  print('rss_steady_mib', figures.rssMiB, 'MiB', of);
  print('live_mib', figures.liveBytes / 2 ** 20, 'MiB', of);
  print('event_loop_stall_p99_ms', figures.stallP99Ms, 'ms', perWindow);
  print('event_loop_stall_max_ms', figures.stallMaxMs, 'ms', perWindow);
  print('api_requests_per_window', figures.requestsPerWindow, 'requests', perWindow);
  print('prometheus_requests_per_window', figures.queriesPerWindow, 'requests', perWindow);
  print('events_per_window', figures.eventsPerWindow, 'events', perWindow);
  print('start_to_ready_seconds', figures.readySeconds, 's', of);
  const { restart } = figures;
  if (restart === undefined) return;
  print('restart_to_window_seconds', restart.toWindowSeconds, 's', perWindow);
  print('restart_rss_mib', restart.rssPeakMiB, 'MiB', of);
}

interface Point {
  readonly size: Size;
  readonly figures: ScaleFigures;
}

/** What one further pod costs, its share of tenants and nodes included. */
function reportGrowth(smaller: Point, larger: Point): void {
  const pods = larger.size.pods - smaller.size.pods;
  const of = `${smaller.size.pods} to ${larger.size.pods} pods`;
  const live = larger.figures.liveBytes - smaller.figures.liveBytes;
  const resident = (larger.figures.rssMiB - smaller.figures.rssMiB) * 2 ** 20;
  print('bytes_per_pod', live / pods, 'bytes', of);
  print('rss_bytes_per_pod', resident / pods, 'bytes', of);
}

/** What foreign pods cost; changes to other pods go on meanwhile. */
function reportForeign(without: ScaleFigures, together: ScaleFigures, pods: number): void {
  const of = `${pods} foreign pods`;
  const live = together.liveBytes - without.liveBytes;
  const resident = (together.rssMiB - without.rssMiB) * 2 ** 20;
  const cpu = together.cpuSecondsPerWindow - without.cpuSecondsPerWindow;
  print('bytes_per_foreign_pod', live / pods, 'bytes', of);
  print('rss_bytes_per_foreign_pod', resident / pods, 'bytes', of);
  print('cpu_seconds_per_window_of_foreign_pods', cpu, 's', `${of}, windows of ${windowSeconds} s`);
}

/** As in config/operator/stateful-set.yaml, but for the heap. */
function nodeOptions(megabytes: number): string {
  return `--max-old-space-size=${megabytes}`;
}

function print(figure: string, value: number, unit: string, of: string): void {
  const rounded = Number(value.toPrecision(4));
  console.log(JSON.stringify({ bench: 'scale', figure, value: rounded, unit, of }));
}

function describe({ tenants, pods, nodes, foreign: others }: Size): string {
  const beside = others === undefined ? '' : ` beside ${others} foreign ones`;
  return `${tenants} tenants, ${pods} pods${beside}, ${nodes} nodes`;
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value <= 0) {
    console.error(`bench: scale: --${name}: give a whole number above 0: "${text}"`);
    process.exit(2);
  }
  return value;
}
