import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Size } from './population.ts';
import { PROMETHEUS_PATH } from './prometheus.ts';
import {
  answerOf,
  query,
  end,
  prepareOperator,
  type Report,
  type RunningOperator,
} from './shipped-operator.ts';

export interface MeasureOptions {
  readonly size: Size;
  readonly windowSeconds: number;
  /** How many windows are measured, after the first. */
  readonly windows: number;
  readonly changesPerSecond: number;
  /** An empty directory of its own. */
  readonly directory: string;
  /** Settings beside those of every bench. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Before the operator starts: puts more objects into the stand-in at the port. */
  readonly prepare?: (apiPort: number) => Promise<void>;
  /** Whether what is measured has begun, asked of the operator that is ready; at once by default. */
  readonly settled?: (address: string) => Promise<boolean>;
  /** After the measured windows, while the operator still runs. */
  readonly inspect?: (address: string) => Promise<void>;
  /** Kills the operator in the end, and measures how it comes back. */
  readonly restart?: boolean;
}

/** What running the operator at one size showed. */
export interface ScaleFigures {
  /** From a window's end until the ledger has it, settling delay included; the slowest, seconds. */
  readonly closeSeconds: number;
  /** Of it, measuring and appending; the slowest, seconds. */
  readonly measureSeconds: number;
  /** Processor time of the process in a window, all threads. */
  readonly cpuSecondsPerWindow: number;
  readonly eventsPerWindow: number;
  /** From the start of the process until all lists are in. */
  readonly readySeconds: number;
  readonly rssPeakMiB: number;
  /** In the measured windows. */
  readonly rssMiB: number;
  /** JavaScript heap and buffers in use after a full collection, between two windows. */
  readonly liveBytes: number;
  readonly stallP99Ms: number;
  readonly stallMaxMs: number;
  readonly requestsPerWindow: number;
  /** To Prometheus. */
  readonly queriesPerWindow: number;
  readonly restart?: RestartFigures;
}

export interface RestartFigures {
  /** From the start of the process after a kill until the first further window is in the ledger. */
  readonly toWindowSeconds: number;
  readonly rssPeakMiB: number;
}

const READY_TIMEOUT_MS = 300_000;

/** Runs the operator as it is in the image against the stand-in, each in a process of its own. */
export async function measureScale(options: MeasureOptions): Promise<ScaleFigures> {
  const { size, changesPerSecond } = options;
  const api = fork(join(import.meta.dirname, 'api-server.ts'), [
    JSON.stringify({ size, changesPerSecond }),
  ]);
  try {
    const { port: apiPort } = await answerOf<{ port: number }>(api);
    await options.prepare?.(apiPort);
    const environment = {
      PROMETHEUS_URL: `http://127.0.0.1:${apiPort}${PROMETHEUS_PATH}`,
      ...options.environment,
    };
    const shipped = await prepareOperator({
      ...options,
      api: { port: apiPort },
      environment,
    });
    const begun = performance.now();
    const operator = shipped.start();
    try {
      const figures = await measureWindows(options, operator, api, begun);
      await options.inspect?.(operator.address);
      if (options.restart !== true) return figures;
      const [last] = await operator.reports();
      await operator.kill();
      return { ...figures, restart: await measureRestart(shipped.start(), options, last) };
    } finally {
      await operator.stop();
    }
  } finally {
    await end(api, 'SIGTERM');
  }
}

async function measureWindows(
  { windowSeconds, windows, settled }: MeasureOptions,
  operator: RunningOperator,
  api: ChildProcess,
  begun: number,
): Promise<ScaleFigures> {
  const { address } = operator;
  const reports = () => operator.reports();
  await operator.until(READY_TIMEOUT_MS, async () => (await fetch(`${address}/readyz`)).ok);
  const readySeconds = (performance.now() - begun) / 1000;
  if (settled !== undefined) await operator.until(READY_TIMEOUT_MS, () => settled(address));
  const windowsTimeoutMs = (windows + 3) * windowSeconds * 1000;
  // Those that had ended before the first list was in are closed late, one after the other: that is no close of a window.
  await operator.until(READY_TIMEOUT_MS + windowsTimeoutMs, async () =>
    (await reports()).some(({ backfilled }) => !backfilled),
  );
  const seen = (await reports()).length;
  operator.send('reset');
  const requestsBefore = await requestsOf(api);
  const cpuBefore = operator.cpuSeconds();
  const measuredFrom = performance.now();
  const rss: number[] = [];
  let measured: readonly Report[] = [];
  await operator.until(windowsTimeoutMs, async () => {
    rss.push(operator.residentMiB('VmRSS'));
    measured = (await reports()).slice(0, -seen);
    return measured.length >= windows;
  });
  const inWindows = (performance.now() - measuredFrom) / 1000 / windowSeconds;
  const requestsAfter = await requestsOf(api);
  const cpuSeconds = operator.cpuSeconds() - cpuBefore;
  const stalls = await operator.query<{ p99: number; max: number }>('stalls');
  const peak = operator.residentMiB('VmHWM');
  const live: number[] = [];
  for (let poll = 0; poll < 5; poll += 1) {
    const { heapUsed, external } = await operator.query<NodeJS.MemoryUsage>('heap');
    live.push(heapUsed + external);
    await delay(1000);
  }
  const lateness = measured.map(
    ({ window_end: end }) => (operator.appendedAt(end) - Date.parse(end)) / 1000,
  );
  return {
    closeSeconds: Math.max(...lateness),
    measureSeconds: Math.max(...measured.map((report) => report.duration_ms)) / 1000,
    cpuSecondsPerWindow: cpuSeconds / inWindows,
    eventsPerWindow: Math.max(...measured.map((report) => report.events)),
    readySeconds,
    rssPeakMiB: peak,
    rssMiB: Math.max(...rss),
    liveBytes: Math.min(...live),
    stallP99Ms: stalls.p99,
    stallMaxMs: stalls.max,
    requestsPerWindow: (requestsAfter.kubernetes - requestsBefore.kubernetes) / inWindows,
    queriesPerWindow: (requestsAfter.prometheus - requestsBefore.prometheus) / inWindows,
  };
}

async function measureRestart(
  operator: RunningOperator,
  { windowSeconds }: MeasureOptions,
  last: Report | undefined,
): Promise<RestartFigures> {
  const begun = performance.now();
  try {
    await operator.until(READY_TIMEOUT_MS + windowSeconds * 1000, async () => {
      const [newest] = await operator.reports();
      return newest !== undefined && newest.window_end > (last?.window_end ?? '');
    });
    const toWindowSeconds = (performance.now() - begun) / 1000;
    return { toWindowSeconds, rssPeakMiB: operator.residentMiB('VmHWM') };
  } finally {
    await operator.stop();
  }
}

interface Served {
  readonly kubernetes: number;
  readonly prometheus: number;
}

async function requestsOf(api: ChildProcess): Promise<Served> {
  const { requests, queries } = await query<{
    requests: Record<string, number>;
    queries: number;
  }>(api, 'stats');
  const kubernetes = Object.values(requests).reduce((sum, count) => sum + count, 0);
  return { kubernetes, prometheus: queries };
}
