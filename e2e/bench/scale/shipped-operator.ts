import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { transformSync } from 'esbuild';
import { bundle } from '../../../scripts/bundle.ts';
import { freePort } from '../../control-plane/ports.ts';
import { shippedProcess } from '../../local/stateful-set.ts';
import { residentBytes } from '../../processes/memory.ts';

/** The operator as it is in the image, with the options that the installation gives it. */
export interface ShippedOperator {
  /** Starts it, in a process of its own; with the same directory it goes on where it was. */
  start(): RunningOperator;
}

export interface RunningOperator {
  /** `http://127.0.0.1:<port>` */
  readonly address: string;
  /** Waits until something holds; throws with the end of the log when the operator ends or time runs out. */
  until(timeoutMs: number, holds: () => Promise<boolean>): Promise<void>;
  /** Reports of the windows that pods were metered in, newest first. */
  reports(): Promise<readonly Report[]>;
  /**
   * When the ledger had all of a window with this end (RFC 3339), milliseconds since the epoch: the last line of the
   * log that tells of it, since its scopes may be closed apart. NaN while there is none.
   */
  appendedAt(windowEnd: string): number;
  /** Asks the probe inside, or tells it something. */
  query<T>(question: string): Promise<T>;
  send(what: string): void;
  /** What it holds, or held at most. */
  residentMiB(field: 'VmRSS' | 'VmHWM' | 'RssAnon'): number;
  /** Files and sockets that it holds open. */
  descriptors(): number;
  /** Processor time that it has taken. */
  cpuSeconds(): number;
  stop(): Promise<void>;
  kill(): Promise<void>;
}

export interface Report {
  readonly window_end: string;
  readonly duration_ms: number;
  /** It was due long before, as while the first lists came in. */
  readonly backfilled: boolean;
  readonly events: number;
  readonly scopes: readonly string[];
}

export interface ShippedOperatorOptions {
  /** Of its own: image, data and log are put there. */
  readonly directory: string;
  /** Of a stand-in on this machine, which asks for no credentials; or a file that leads to an API server. */
  readonly api: { readonly port: number } | { readonly kubeconfig: string };
  readonly windowSeconds: number;
  readonly environment?: Readonly<Record<string, string>> | undefined;
}

const TICKS_PER_SECOND = 100;

export async function prepareOperator(options: ShippedOperatorOptions): Promise<ShippedOperator> {
  const { directory, api, windowSeconds } = options;
  const port = await freePort();
  const image = join(directory, 'image');
  await bundle(image);
  const probe = join(directory, 'probe.mjs');
  // Node would keep a compiler in memory for it.
  const source = readFileSync(join(import.meta.dirname, 'probe.ts'), 'utf8');
  writeFileSync(probe, transformSync(source, { loader: 'ts', format: 'esm' }).code);
  const kubeconfig = 'port' in api ? join(directory, 'kubeconfig.yaml') : api.kubeconfig;
  if ('port' in api) writeFileSync(kubeconfig, kubeconfigFor(`http://127.0.0.1:${api.port}`));
  const logFile = join(directory, 'operator.log');
  return {
    start: () => {
      const log = openSync(logFile, 'w');
      const child = fork(join(image, 'main.js'), [], {
        execArgv: ['--expose-gc', '--import', probe],
        stdio: ['ignore', log, log, 'ipc'],
        env: {
          PATH: process.env['PATH'],
          ...shippedProcess().environment,
          KUBECONFIG: kubeconfig,
          DATA_DIR: join(directory, 'data'),
          LISTEN_ADDR: `127.0.0.1:${port}`,
          PROBE_ADDR: '127.0.0.1:0',
          COLLECTION_INTERVAL: `${windowSeconds}s`,
          REGION: 'bench',
          ...options.environment,
        },
      });
      const token = options.environment?.['API_TOKEN'];
      return running(child, `http://127.0.0.1:${port}`, { logFile, token });
    },
  };
}

function running(
  child: ChildProcess,
  address: string,
  { logFile, token }: { readonly logFile: string; readonly token: string | undefined },
): RunningOperator {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return {
    address,
    until: async (timeoutMs, holds) => {
      const deadline = performance.now() + timeoutMs;
      while (!(await holds().catch(() => false))) {
        const { exitCode, signalCode } = child;
        const isOver = exitCode !== null || signalCode !== null;
        if (isOver || performance.now() > deadline) {
          const tail = readFileSync(logFile, 'utf8').slice(-2000);
          const how = isOver ? `ended with ${signalCode ?? exitCode}` : 'took too long';
          throw new Error(`scale: the operator ${how}: ${tail}`);
        }
        await delay(250);
      }
    },
    reports: async () => {
      const response = await fetch(`${address}/api/v1/windows`, { headers });
      const { windows: all } = (await response.json()) as { windows: readonly Report[] };
      // While the first lists come in, what is listed sooner is closed by itself.
      return all.filter(({ scopes }) => scopes.includes('pods'));
    },
    appendedAt: (windowEnd) => {
      const reported = `[controller] window ${windowEnd.slice(11, 19)}: `;
      const lines = readFileSync(logFile, 'utf8').split('\n');
      const last = lines.findLast(
        (line) => line.includes(reported) && line.includes(' events for '),
      );
      if (last === undefined) return Number.NaN;
      return Date.parse((JSON.parse(last) as { readonly time: string }).time);
    },
    query: (question) => query(child, question),
    send: (what) => void child.send(what),
    residentMiB: (field) => residentBytes(child.pid, field) / 1024 ** 2,
    descriptors: () => readdirSync(`/proc/${child.pid}/fd`).length,
    cpuSeconds: () => {
      const stat = readFileSync(`/proc/${child.pid}/stat`, 'utf8');
      // After the name, which may hold anything but a closing bracket: user and system time are 12th and 13th.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
    },
    stop: () => end(child, 'SIGTERM'),
    kill: () => end(child, 'SIGKILL'),
  };
}

export async function query<T>(child: ChildProcess, question: string): Promise<T> {
  const answer = answerOf<T>(child);
  child.send(question);
  return await answer;
}

export async function answerOf<T>(child: ChildProcess): Promise<T> {
  const [answer] = (await once(child, 'message')) as [T];
  return answer;
}

/** Ends a process; with SIGKILL when it does not go by itself. */
export async function end(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  const escalation = setTimeout(() => child.kill('SIGKILL'), 20_000);
  await exited;
  clearTimeout(escalation);
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
