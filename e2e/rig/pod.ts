import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../control-plane/ports.ts';
import { OPERATOR_NAMESPACE } from '../local/custom-resources.ts';
import { type DatabaseProxy, startDatabaseProxy } from '../postgres/proxy.ts';
import { type ManagedProcess, startProcess } from '../processes/managed-process.ts';
import { signalProcess } from '../processes/pid-file.ts';

const PROGRAM = resolve(import.meta.dirname, '../../operator/main.ts');
/** A kubelet starts a container again about so long after it ended. */
const RESTART_MS = 2_000;
/** The grace that the manifests give. */
const STOP_GRACE_MS = 30_000;

export interface PodOptions {
  readonly name: string;
  readonly directory: string;
  /** Of the API server. */
  readonly kubeconfig: string;
  /** Where PostgreSQL, or a pooler before it, listens on this machine. */
  readonly databasePort: number;
  /** `postgresql://` for the port of this pod's own way to the database. */
  readonly ledgerUrl: (port: number) => string;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * One of the two processes of the shipped program, with a way of its own to the API server and to the database. It is started
 * again whenever it ends, as by a kubelet.
 */
export class RigPod {
  readonly name: string;
  /** `http://127.0.0.1:<port>`, the same for all its processes. */
  readonly address: string;
  readonly database: DatabaseProxy;
  readonly apiServer: DatabaseProxy;
  readonly #launch: () => Promise<ManagedProcess>;
  readonly #stopping = new AbortController();
  #process: ManagedProcess | undefined;
  #running: Promise<void> = Promise.resolve();

  private constructor(
    options: PodOptions,
    port: number,
    ways: { readonly database: DatabaseProxy; readonly apiServer: DatabaseProxy },
  ) {
    this.name = options.name;
    this.address = `http://127.0.0.1:${port}`;
    this.database = ways.database;
    this.apiServer = ways.apiServer;
    const file = (name: string): string => join(options.directory, name);
    writeFileSync(file('kubeconfig'), throughProxy(options.kubeconfig, ways.apiServer.port), {
      mode: 0o600,
    });
    const env = {
      ...process.env,
      DATA_DIR: file('data'),
      LISTEN_ADDR: `127.0.0.1:${port}`,
      POD_NAMESPACE: OPERATOR_NAMESPACE,
      POD_NAME: options.name,
      ...options.env,
      LEDGER_URL: options.ledgerUrl(ways.database.port),
      KUBECONFIG: file('kubeconfig'),
    };
    this.#launch = () =>
      startProcess({
        name: options.name,
        command: process.execPath,
        args: [PROGRAM],
        env,
        logFile: file('log'),
        pidFile: file('pid'),
        // It is observed from outside, whether it ever gets ready or not.
        ready: async () => true,
      });
  }

  static async start(options: PodOptions): Promise<RigPod> {
    mkdirSync(options.directory, { recursive: true });
    const apiServer = await startDatabaseProxy(apiServerPort(options.kubeconfig));
    const database = await startDatabaseProxy(options.databasePort);
    const pod = new RigPod(options, await freePort(), { database, apiServer });
    pod.#running = pod.#run();
    return pod;
  }

  /** Of the process that runs; undefined between two. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  kill(): void {
    this.#signal('SIGKILL');
  }

  /** Ends the process in order, as a rolling update does; the next one starts by itself. */
  async restart(): Promise<void> {
    await this.#process?.stop(STOP_GRACE_MS);
  }

  freeze(): void {
    this.#signal('SIGSTOP');
  }

  thaw(): void {
    this.#signal('SIGCONT');
  }

  /** Lets everything through again, and goes on. */
  restore(): void {
    this.database.restore();
    this.apiServer.restore();
    this.thaw();
  }

  /** Ends the process for good. */
  async end(): Promise<void> {
    this.#stopping.abort();
    this.restore();
    await this.#process?.stop(STOP_GRACE_MS);
    await this.#running;
    await this.database.close();
    await this.apiServer.close();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const running = await this.#launch();
      this.#process = running;
      if (signal.aborted) await running.stop(STOP_GRACE_MS);
      await running.exited;
      this.#process = undefined;
      await delay(RESTART_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.pid !== undefined) signalProcess(this.pid, signal);
  }
}

const SERVER = /server: ['"]?https:\/\/127\.0\.0\.1:(\d+)/;

function apiServerPort(kubeconfig: string): number {
  const port = SERVER.exec(kubeconfig)?.[1];
  if (port === undefined) throw new Error('rig: kubeconfig: no server on 127.0.0.1');
  return Number(port);
}

function throughProxy(kubeconfig: string, port: number): string {
  return kubeconfig.replace(`127.0.0.1:${apiServerPort(kubeconfig)}`, `127.0.0.1:${port}`);
}
