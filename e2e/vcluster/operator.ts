import { setTimeout as delay } from 'node:timers/promises';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import type { RunFiles } from '../local/run-directory.ts';
import { parseEvents } from '../long/received.ts';
import type { Explained, Stated, Stretch } from './compare.ts';

const WINDOW_MS = 10_000;
const SCOPES = ['pods', 'gpus', 'volumes', 'load-balancers', 'workloads'];
const PATIENCE_MS = 120_000;

interface Report {
  readonly window_start: string;
  readonly window_end: string;
  readonly scopes: readonly string[];
  readonly unattributed: { readonly total: number; readonly items: readonly string[] };
}

/** The operator as it is shipped, at the service of one cluster. */
export class Operator {
  readonly #files: RunFiles;
  readonly #kubeconfig: string;
  #running: RunningOperator | undefined;

  constructor(files: RunFiles, kubeconfig: string) {
    this.#files = files;
    this.#kubeconfig = kubeconfig;
  }

  async start(): Promise<void> {
    this.#running = await startOperator({
      files: this.#files,
      kubeconfig: this.#kubeconfig,
      env: {
        REGION: 'local',
        PLATFORM_CLUSTER: 'local',
        ADAPTERS: 'noop',
        COLLECTION_INTERVAL: `${WINDOW_MS / 1000}s`,
        CPU_MEMORY_BASIS: 'requests',
      },
      signal: AbortSignal.timeout(180_000),
    });
  }

  async stop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await running?.stop(30_000);
  }

  /** Waits until a window is closed in all scopes that ends after this moment. */
  async closedBeyond(moment: number): Promise<void> {
    const deadline = Math.max(Date.now(), moment) + PATIENCE_MS;
    while ((await this.#closed()).to <= moment) {
      if (Date.now() > deadline) throw new Error('vcluster: the operator closes no more windows');
      await delay(500);
    }
  }

  /** All that was billed so far, and what stands behind it. */
  async stated(): Promise<Stated> {
    const stretch = await this.#closed();
    const query = `from=${time(stretch.from - WINDOW_MS)}&to=${time(stretch.to + WINDOW_MS)}`;
    const text = await (await this.#query(`/api/v1/events?${query}`)).text();
    const events = parseEvents(text).filter(({ window_end: end }) => Date.parse(end) <= stretch.to);
    const explained: Explained[] = [];
    for (const event of events) {
      const answer = await this.#query(`/api/v1/events/${event.id}/explain`);
      const { objects } = (await answer.json()) as Pick<Explained, 'objects'>;
      explained.push({ event, objects });
    }
    const unattributed = (await this.#reports()).flatMap((report) => report.unattributed.items);
    return { stretch, explained, unattributed: [...new Set(unattributed)] };
  }

  /** From the first window to the last one that all scopes are closed of. */
  async #closed(): Promise<Stretch> {
    const reports = await this.#reports();
    const ends = SCOPES.map((scope) => {
      const closed = reports.filter(({ scopes }) => scopes.includes(scope));
      return Math.max(0, ...closed.map(({ window_end: end }) => Date.parse(end)));
    });
    const starts = reports.map(({ window_start: start }) => Date.parse(start));
    return { from: Math.min(...starts), to: Math.min(...ends) };
  }

  async #reports(): Promise<readonly Report[]> {
    const answer = await this.#query('/api/v1/windows?limit=1000');
    return ((await answer.json()) as { readonly windows: readonly Report[] }).windows;
  }

  async #query(path: string): Promise<Response> {
    const response = await fetch(`${this.#running?.address ?? 'http://stopped.invalid'}${path}`);
    if (!response.ok) throw new Error(`vcluster: ${path}: HTTP ${response.status}`);
    return response;
  }
}

function time(at: number): string {
  return new Date(at).toISOString();
}
