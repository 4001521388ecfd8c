import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { vi } from 'vitest';
import type { TestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { loadKubeConfig } from '../../kubernetes/kube-config.ts';
import { settingsFrom } from '../../settings/testing/settings.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { createLogger } from '../../telemetry/create-logger.ts';
import { Scrubber } from '../../telemetry/scrubber.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { type OwnCluster, runProcess } from '../run-process.ts';

/** Reads and changes through the API of every process. */
const API_TOKEN = 'api-canary-5b1e90d2';

/** A whole operator or hub, with its HTTP server at a port of its own. */
export interface OperatorProcess {
  /** Of its API: `http://127.0.0.1:port`. */
  readonly address: string;
  /** The newest lines of its log. */
  log(): string;
  /** A request with {@link API_TOKEN}. A body that is no text is sent as JSON. */
  readonly call: (
    method: string,
    path: string,
    body?: unknown,
    headers?: object,
  ) => Promise<Response>;
  get(path: string): Promise<Answer>;
  /** Resolves when `/readyz`, or another path, answers 200. Rejects when the process ends. */
  answers(path?: string): Promise<void>;
  stop(): Promise<unknown>;
}

/** What the HTTP server answers. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly retryAfter: string | null;
}

export interface OperatorProcessOptions {
  /** Absent for a hub outside a cluster. */
  readonly cluster?: OwnCluster;
  readonly environment: Readonly<Record<string, string>>;
  /** Window size in milliseconds, also below what COLLECTION_INTERVAL takes. */
  readonly windowMs?: number;
  readonly instance?: string;
  readonly pod?: string;
  readonly clock?: Clock;
  /** DATA_DIR of a process that others come after; a directory that goes with it by default. */
  readonly directory?: string;
}

const PATIENCE = { timeout: 180_000, interval: 50 };
const LISTENING = /\[http\] listening .*port[^0-9]*(\d+)/;
/** Tests wait for statuses, and for Secrets that change. */
const TIMINGS = { report: 500, statusInterval: 1_000, secrets: 1_000 };

/** Starts a process. Resolves when its HTTP server listens. */
export async function startOperator(options: OperatorProcessOptions): Promise<OperatorProcess> {
  const { cluster, environment, clock = systemClock, instance = 'meterfeed-0', pod } = options;
  const directory = options.directory ?? (await mkdtemp(join(tmpdir(), 'meterfeed-operator-')));
  const logged: string[] = [];
  const output = new PassThrough();
  output.on('data', (text: Buffer) => {
    logged.push(text.toString());
    if (logged.length > 2_000) logged.shift();
  });
  const log = (): string => logged.join('');
  const settings = settingsFrom({
    API_TOKEN,
    ...environment,
    DATA_DIR: join(directory, 'data'),
    LISTEN_ADDR: '127.0.0.1:0',
  });
  const { windowMs = settings.metering.windowMs } = options;
  const stopping = new AbortController();
  const running = runProcess(
    {
      version: '1.2.3',
      environment: { ...settings, metering: { ...settings.metering, windowMs } },
      configuredMetrics: [],
      controllerTimings: TIMINGS,
      cluster,
      instance,
      pod,
      clock,
      random: Math.random,
      logger: createLogger({ level: 'info', format: 'text', output }),
      scrubber: new Scrubber(),
    },
    stopping.signal,
  );
  const ended = running.then((end) => {
    throw new Error(`the process has ended: ${JSON.stringify(end)}: ${log()}`);
  });
  ended.catch(() => undefined);
  const orEnded = async <T>(look: () => T | Promise<T>): Promise<T> =>
    Promise.race([vi.waitFor(look, PATIENCE), ended]);
  const port = await orEnded(() => {
    const [, found] = LISTENING.exec(log()) ?? [];
    if (found === undefined) throw new Error(`not listening: ${log()}`);
    return found;
  });
  const address = `http://127.0.0.1:${port}`;
  const call: OperatorProcess['call'] = (method, path, body, headers = {}) =>
    fetch(address + path, {
      method,
      headers: {
        authorization: `Bearer ${API_TOKEN}`,
        'content-type': 'application/json',
        ...headers,
      },
      body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
    });
  return {
    address,
    log,
    call,
    get: async (path) => {
      const response = await call('GET', path);
      const retryAfter = response.headers.get('retry-after');
      return { status: response.status, text: await response.text(), retryAfter };
    },
    answers: async (path = '/readyz') => {
      await orEnded(async () => {
        const response = await call('GET', path).catch(() => undefined);
        await response?.text();
        if (response?.status !== 200) throw new Error(`${path} is not answered: ${log()}`);
      });
    },
    stop: async () => {
      stopping.abort();
      const end = await running;
      if (options.directory === undefined) await rm(directory, { recursive: true, force: true });
      return end;
    },
  };
}

/** The cluster that a kubeconfig leads to, with a namespace as the operator's own. */
export function ownCluster(kubeconfigPath: string, namespace: string): OwnCluster {
  const access = loadKubeConfig({ kind: 'file', path: kubeconfigPath });
  if (access.kind === 'invalid') throw new Error(access.reason);
  return { kubeConfig: access.kubeConfig, namespace };
}

/** The operator writes the status meanwhile, so that a version may be an old one already. */
export async function replaceSpec(host: TestCluster, path: string, spec: object): Promise<void> {
  for (;;) {
    const current = await host.call('GET', path);
    const { status, body } = await host.request('PUT', path, { ...current, spec });
    if (status === 200) return;
    if (status !== 409) throw new Error(`PUT ${path}: ${JSON.stringify(body)}`);
  }
}
