import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { transformSync } from 'esbuild';
import { parse } from 'yaml';
import { bundle } from '../../../scripts/bundle.ts';
import { freePort } from '../../control-plane/ports.ts';
import type { Size } from './population.ts';

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
  /** After the measured windows, while the operator still runs. */
  readonly inspect?: (address: string) => Promise<void>;
}

/** What running the operator at one size showed. */
export interface ScaleFigures {
  /** From a window's end until the ledger has it, settling delay included; the slowest, seconds. */
  readonly closeSeconds: number;
  /** Of it, measuring and appending; the slowest, seconds. */
  readonly measureSeconds: number;
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
}

interface Report {
  readonly window_end: string;
  readonly closed_at: string;
  readonly duration_ms: number;
  readonly events: number;
  readonly scopes: readonly string[];
}

const ROOT = resolve(import.meta.dirname, '../../..');
const READY_TIMEOUT_MS = 180_000;

/** Runs the operator as it is in the image against the stand-in, each in a process of its own. */
export async function measureScale(options: MeasureOptions): Promise<ScaleFigures> {
  const { size, changesPerSecond } = options;
  const api = fork(join(import.meta.dirname, 'api-server.ts'), [
    JSON.stringify({ size, changesPerSecond }),
  ]);
  try {
    const { port } = await answerOf<{ port: number }>(api);
    await options.prepare?.(port);
    return await measureOperator(options, api, port);
  } finally {
    await end(api);
  }
}

async function measureOperator(
  options: MeasureOptions,
  api: ChildProcess,
  apiPort: number,
): Promise<ScaleFigures> {
  const { directory, windowSeconds, windows } = options;
  const port = await freePort();
  const image = join(directory, 'image');
  await bundle(image);
  const probe = join(directory, 'probe.mjs');
  // Node would keep a compiler in memory for it.
  const source = readFileSync(join(import.meta.dirname, 'probe.ts'), 'utf8');
  writeFileSync(probe, transformSync(source, { loader: 'ts', format: 'esm' }).code);
  const kubeconfig = join(directory, 'kubeconfig.yaml');
  writeFileSync(kubeconfig, kubeconfigFor(`http://127.0.0.1:${apiPort}`));
  const log = openSync(join(directory, 'operator.log'), 'w');
  const begun = performance.now();
  const operator = fork(join(image, 'main.js'), [], {
    execArgv: ['--expose-gc', '--import', probe],
    stdio: ['ignore', log, log, 'ipc'],
    env: {
      PATH: process.env['PATH'],
      NODE_OPTIONS: shippedNodeOptions(),
      KUBECONFIG: kubeconfig,
      DATA_DIR: join(directory, 'data'),
      LISTEN_ADDR: `127.0.0.1:${port}`,
      COLLECTION_INTERVAL: `${windowSeconds}s`,
      REGION: 'bench',
      ...options.environment,
    },
  });
  const until = async (timeoutMs: number, holds: () => Promise<boolean>): Promise<void> => {
    const deadline = performance.now() + timeoutMs;
    while (!(await holds().catch(() => false))) {
      const { exitCode, signalCode } = operator;
      const isOver = exitCode !== null || signalCode !== null;
      if (isOver || performance.now() > deadline) {
        const tail = readFileSync(join(directory, 'operator.log'), 'utf8').slice(-2000);
        const how = isOver ? `ended with ${signalCode ?? exitCode}` : 'took too long';
        throw new Error(`scale: the operator ${how}: ${tail}`);
      }
      await delay(250);
    }
  };
  try {
    const address = `http://127.0.0.1:${port}`;
    await until(READY_TIMEOUT_MS, async () => (await fetch(`${address}/readyz`)).ok);
    const readySeconds = (performance.now() - begun) / 1000;
    const reports = async (): Promise<readonly Report[]> => {
      const response = await fetch(`${address}/api/v1/windows`);
      const { windows: all } = (await response.json()) as { windows: readonly Report[] };
      // While the first lists come in, what is listed sooner is closed by itself.
      return all.filter(({ scopes }) => scopes.includes('pods'));
    };
    const windowsTimeoutMs = (windows + 3) * windowSeconds * 1000;
    await until(windowsTimeoutMs, async () => (await reports()).length > 0);
    const seen = (await reports()).length;
    operator.send('reset');
    const requestsBefore = await requestsOf(api);
    const measuredFrom = performance.now();
    const rss: number[] = [];
    let measured: readonly Report[] = [];
    await until(windowsTimeoutMs, async () => {
      rss.push(residentMiB(operator, 'VmRSS'));
      measured = (await reports()).slice(0, -seen);
      return measured.length >= windows;
    });
    const elapsed = (performance.now() - measuredFrom) / 1000;
    const requests = (await requestsOf(api)) - requestsBefore;
    const stalls = await ask<{ p99: number; max: number }>(operator, 'stalls');
    const peak = residentMiB(operator, 'VmHWM');
    const live: number[] = [];
    for (let look = 0; look < 5; look += 1) {
      const { heapUsed, external } = await ask<NodeJS.MemoryUsage>(operator, 'heap');
      live.push(heapUsed + external);
      await delay(1000);
    }
    await options.inspect?.(address);
    const lateness = measured.map(
      ({ window_end: due, closed_at: closed, duration_ms: took }) =>
        (Date.parse(closed) - Date.parse(due) + took) / 1000,
    );
    return {
      closeSeconds: Math.max(...lateness),
      measureSeconds: Math.max(...measured.map((report) => report.duration_ms)) / 1000,
      eventsPerWindow: Math.max(...measured.map((report) => report.events)),
      readySeconds,
      rssPeakMiB: peak,
      rssMiB: Math.max(...rss),
      liveBytes: Math.min(...live),
      stallP99Ms: stalls.p99,
      stallMaxMs: stalls.max,
      requestsPerWindow: (requests * windowSeconds) / elapsed,
    };
  } finally {
    await end(operator);
  }
}

interface Workload {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly {
          readonly env: readonly { readonly name: string; readonly value?: string }[];
        }[];
      };
    };
  };
}

/** What the installation gives the process. */
function shippedNodeOptions(): string {
  const text = readFileSync(join(ROOT, 'config/operator/stateful-set.yaml'), 'utf8');
  const [container] = (parse(text) as Workload).spec.template.spec.containers;
  return container?.env.find(({ name }) => name === 'NODE_OPTIONS')?.value ?? '';
}

async function requestsOf(api: ChildProcess): Promise<number> {
  const { requests } = await ask<{ requests: Record<string, number> }>(api, 'stats');
  return Object.values(requests).reduce((sum, count) => sum + count, 0);
}

async function ask<T>(child: ChildProcess, question: string): Promise<T> {
  const answer = answerOf<T>(child);
  child.send(question);
  return await answer;
}

async function answerOf<T>(child: ChildProcess): Promise<T> {
  const [answer] = (await once(child, 'message')) as [T];
  return answer;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill();
  const escalation = setTimeout(() => child.kill('SIGKILL'), 20_000);
  await exited;
  clearTimeout(escalation);
}

function residentMiB({ pid }: ChildProcess, field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1] ?? Number.NaN) / 1024;
}

function kubeconfigFor(server: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'stand-in',
    clusters: [{ name: 'stand-in', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'stand-in', user: {} }],
    contexts: [{ name: 'stand-in', context: { cluster: 'stand-in', user: 'stand-in' } }],
  });
}
