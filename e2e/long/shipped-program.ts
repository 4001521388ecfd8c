import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { vi } from 'vitest';
import { shippedOptions } from '../../config/testing/shipped-options.ts';
import { bundle } from '../../scripts/bundle.ts';
import type { TestCluster } from '../control-plane/test-cluster.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { operatorKubeconfig } from '../local/service-account.ts';
import { signalProcess } from '../processes/pid-file.ts';

/** What each tenant cluster is billed for in one window, by id. */
export type Bill = Readonly<Record<string, number>>;

export interface ShippedProgramOptions {
  readonly cluster: TestCluster;
  /** Begins the name of its directory. */
  readonly name: string;
  readonly windowMs: number;
  /** Over what it runs with by default: no destination, and CPU and memory by requests. */
  readonly env?: Readonly<Record<string, string>>;
}

/** How long a walk waits for what has to come. */
export const PATIENCE = { timeout: 90_000, interval: 500 };

/**
 * The program of the image under its own options of Node, with the rights that the manifests give it on a test's cluster,
 * and what its API says.
 */
export interface ShippedProgram {
  /** Starts it where it was. */
  start(): Promise<void>;
  /** As a node that loses power. */
  kill(): Promise<void>;
  /** The body of an answer of its API, which has to be 200. */
  get(path: string): Promise<Record<string, unknown>>;
  /** What was billed of a metric in each window of the last hour, by the window's start in milliseconds. */
  bills(metric: string): Promise<ReadonlyMap<number, Bill>>;
  /** What the first whole window that starts from now on is billed. */
  nextBill(metric: string): Promise<Bill>;
  stop(): Promise<void>;
}

export async function prepareShippedProgram(
  options: ShippedProgramOptions,
): Promise<ShippedProgram> {
  const files = runFiles(await mkdtemp(join(tmpdir(), `${options.name}-`)));
  await bundle(join(files.directory, 'app'));
  return new Program(options, files);
}

class Program implements ShippedProgram {
  readonly #options: ShippedProgramOptions;
  readonly #files: RunFiles;
  #running: RunningOperator | undefined;

  constructor(options: ShippedProgramOptions, files: RunFiles) {
    this.#options = options;
    this.#files = files;
  }

  async start(): Promise<void> {
    const { directory, data } = this.#files;
    const places = {
      '/app': join(directory, 'app'),
      '/var/run/secrets': join(directory, 'secrets'),
      '/var/lib/vbilling-data': data,
      '/tmp': join(directory, 'tmp'),
    };
    for (const place of Object.values(places)) await mkdir(place, { recursive: true });
    const kubeconfig = join(places['/var/run/secrets'], 'kubeconfig');
    await writeFile(kubeconfig, await operatorKubeconfig(this.#options.cluster), { mode: 0o600 });
    this.#running = await startOperator({
      files: this.#files,
      kubeconfig,
      program: join(places['/app'], 'main.js'),
      nodeOptions: await shippedOptions(places),
      env: {
        REGION: 'local',
        ADAPTERS: 'noop',
        COLLECTION_INTERVAL: `${this.#options.windowMs / 1000}s`,
        RECONCILE_INTERVAL: '2s',
        CPU_MEMORY_BASIS: 'requests',
        HOME: places['/var/run/secrets'],
        ...this.#options.env,
      },
      signal: AbortSignal.timeout(60_000),
    });
  }

  async kill(): Promise<void> {
    if (this.#running === undefined) throw new Error('kill: it does not run');
    signalProcess(this.#running.pid, 'SIGKILL');
    await this.#running.exited;
  }

  async get(path: string): Promise<Record<string, unknown>> {
    const response = await fetch(`${this.#running?.address ?? ''}${path}`);
    if (response.status !== 200) throw new Error(`GET ${path}: HTTP ${response.status}`);
    return (await response.json()) as Record<string, unknown>;
  }

  async bills(metric: string): Promise<ReadonlyMap<number, Bill>> {
    const from = new Date(Date.now() - 3_600_000).toISOString();
    const to = new Date(Date.now() + 60_000).toISOString();
    const query = `metric=${metric}&group_by=window,tenant_cluster&from=${from}&to=${to}`;
    const { rows = [] } = await this.get(`/api/v1/usage?${query}`);
    const found = new Map<number, Record<string, number>>();
    for (const row of rows as readonly Record<string, string>[]) {
      const { window = '', tenant_cluster: id = '', quantity } = row;
      const at = Date.parse(window);
      found.set(at, { ...found.get(at), [id]: Number(quantity) });
    }
    return found;
  }

  async nextBill(metric: string): Promise<Bill> {
    const { windowMs } = this.#options;
    const at = Math.ceil(Date.now() / windowMs) * windowMs;
    // A window without usage has no row: it is closed once the clock of metering is past it.
    await vi.waitFor(async () => {
      const { last_window_end: end } = await this.get('/api/v1/status');
      if (Date.parse(String(end)) >= at + windowMs) return;
      throw new Error(`the last window that was closed ended at ${String(end)}`);
    }, PATIENCE);
    return (await this.bills(metric)).get(at) ?? {};
  }

  async stop(): Promise<void> {
    await this.#running?.stop();
    if (process.env['KEEP_RUN'] !== undefined) return;
    await rm(this.#files.directory, { recursive: true, force: true });
  }
}
