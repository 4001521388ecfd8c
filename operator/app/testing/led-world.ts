import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { vi } from 'vitest';
import type { TestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { settingsFrom } from '../../settings/testing/settings.ts';
import { ROLE_LABEL } from '../../kubernetes/leader-label.ts';
import { loadKubeConfig } from '../../kubernetes/kube-config.ts';
import { isRecord } from '../../model/is-record.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { createLogger } from '../../telemetry/create-logger.ts';
import { Scrubber } from '../../telemetry/scrubber.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { runProcess } from '../run-process.ts';

export const API_TOKEN = 'token-of-the-test';

/** A process of the operator on a database, in a pod that nothing else runs in. */
export interface LedProcess {
  readonly pod: string;
  /** What its HTTP server says: the status and the text. */
  get(path: string): Promise<{
    readonly status: number;
    readonly text: string;
    readonly retryAfter: string | null;
  }>;
  log(): string;
  /** Whether its pod has the label of the leader. */
  isLabelled(): Promise<boolean>;
  /** Resolves when it says that it leads, with everything listed. */
  leads(): Promise<void>;
  stop(): Promise<void>;
}

export interface LedProcessOptions {
  readonly cluster: TestCluster;
  readonly namespace: string;
  readonly pod: string;
  /** LEDGER_URL. */
  readonly url: string;
  readonly clock?: Clock;
  readonly environment?: Readonly<Record<string, string>>;
  /** Of the API server, where it is not reached directly. */
  readonly kubeconfigPath?: string;
}

const PATIENCE = { timeout: 60_000, interval: 50 };

export async function startLedProcess(options: LedProcessOptions): Promise<LedProcess> {
  const { cluster, namespace, pod, url, clock = systemClock } = options;
  const directory = await mkdtemp(join(tmpdir(), 'meterfeed-led-'));
  const path = options.kubeconfigPath ?? cluster.kubeconfigPath;
  const access = loadKubeConfig({ kind: 'file', path });
  if (access.kind === 'invalid') throw new Error(access.reason);
  await cluster.call('POST', `/api/v1/namespaces/${namespace}/pods`, {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: pod, labels: { [ROLE_LABEL]: 'leader' } },
    spec: { containers: [{ name: 'operator', image: 'none' }] },
  });
  const logged: string[] = [];
  const output = new PassThrough();
  output.on('data', (text: Buffer) => {
    logged.push(text.toString());
    if (logged.length > 2_000) logged.shift();
  });
  const log = (): string => logged.join('');
  const stopping = new AbortController();
  const running = runProcess(
    {
      version: 'test',
      environment: settingsFrom({
        COLLECTION_INTERVAL: '10s',
        RECONCILE_INTERVAL: '1s',
        DATA_DIR: join(directory, 'data'),
        LISTEN_ADDR: '127.0.0.1:0',
        LEDGER_URL: url,
        LEDGER_DURABILITY: 'storage',
        API_TOKEN,
        ...options.environment,
      }),
      configuredMetrics: [],
      cluster: { kubeConfig: access.kubeConfig, namespace },
      instance: pod,
      pod,
      clock,
      random: Math.random,
      logger: createLogger({ level: 'info', format: 'text', output }),
      scrubber: new Scrubber(),
    },
    stopping.signal,
  );
  void running.then((end) => logged.push(`ended: ${JSON.stringify(end)}\n`));
  const port = await vi.waitFor(() => {
    const found = /\[http\] listening .*port[^0-9]*(\d+)/.exec(log());
    if (found === null) throw new Error(`not listening: ${log()}`);
    return Number(found[1]);
  }, PATIENCE);
  const get: LedProcess['get'] = async (path_) => {
    const response = await fetch(`http://127.0.0.1:${port}${path_}`, {
      headers: { authorization: `Bearer ${API_TOKEN}` },
    });
    return {
      status: response.status,
      text: await response.text(),
      retryAfter: response.headers.get('retry-after'),
    };
  };
  return {
    pod,
    get,
    log,
    isLabelled: async () => {
      const { metadata } = await cluster.call('GET', `/api/v1/namespaces/${namespace}/pods/${pod}`);
      const labels = isRecord(metadata) ? metadata['labels'] : undefined;
      return isRecord(labels) && labels[ROLE_LABEL] === 'leader';
    },
    leads: async () => {
      await vi.waitFor(async () => {
        const answer = await get('/leaderz').catch(() => undefined);
        if (answer?.status !== 200) throw new Error(`does not lead: ${log()}`);
      }, PATIENCE);
    },
    stop: async () => {
      stopping.abort();
      await running;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
