import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { type RunningOperator, startOperator } from '../../e2e/local/operator-process.ts';
import { runFiles } from '../../e2e/local/run-directory.ts';
import { operatorKubeconfig } from '../../e2e/local/service-account.ts';
import { NAMESPACE } from './helm.ts';

/** The StatefulSet that a chart installs, as far as its pod and claim depend on it. */
export interface StatefulSet {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec: {
    readonly serviceName: string;
    readonly template: { readonly spec: { readonly containers: readonly Container[] } };
    readonly volumeClaimTemplates: readonly {
      readonly metadata: { readonly name: string; readonly labels?: object };
      readonly spec: object;
    }[];
  };
}

interface Container {
  readonly env: readonly { readonly name: string; readonly value?: string }[];
  readonly envFrom: readonly { readonly configMapRef?: { readonly name: string } }[];
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}

/** Where the pod would answer its probes. */
const PLACES = { PROBE_ADDR: '127.0.0.1:0' };

export async function statefulSet(cluster: TestCluster): Promise<StatefulSet> {
  const get = ['get', 'statefulset', 'meterfeed', '--namespace', NAMESPACE, '--output', 'json'];
  return JSON.parse(await cluster.kubectl(get)) as StatefulSet;
}

/** The claim of the first pod, as the controller of StatefulSets makes it where there is none of its name. */
async function ensureClaim(cluster: TestCluster, set: StatefulSet): Promise<string> {
  const [template] = set.spec.volumeClaimTemplates;
  if (template === undefined) throw new Error('StatefulSet meterfeed: no volumeClaimTemplates');
  const name = `${template.metadata.name}-${set.metadata.name}-0`;
  const metadata = { ...template.metadata, name, namespace: NAMESPACE };
  const claim = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata, spec: template.spec };
  await cluster
    .kubectl(['create', '--filename', '-'], JSON.stringify(claim))
    .catch((error: unknown) => {
      if (!String(error).includes('AlreadyExists')) throw error;
    });
  return name;
}

/**
 * Starts the operator as the first pod of the StatefulSet that is installed: with its variables, the rights of its service
 * account, and a directory for each claim, so that a claim of another name, or a volume at another place, is an empty one.
 */
export async function startPod(cluster: TestCluster, directory: string): Promise<RunningOperator> {
  const set = await statefulSet(cluster);
  const [container] = set.spec.template.spec.containers;
  const [template] = set.spec.volumeClaimTemplates;
  if (container === undefined) throw new Error('StatefulSet meterfeed: no container');
  const variables = container.env.flatMap(({ name, value }) =>
    value === undefined ? [] : [[name, value] as const],
  );
  const env = Object.fromEntries([...(await settingsOf(cluster, container)), ...variables]);
  const dataDirectory = env['DATA_DIR'] ?? '';
  const mount = container.volumeMounts.find(({ name }) => name === template?.metadata.name);
  if (mount === undefined || !dataDirectory.startsWith(mount.mountPath)) {
    throw new Error(`DATA_DIR: "${dataDirectory}": not on the claim's volume`);
  }
  const volume = join(directory, 'volumes', await ensureClaim(cluster, set));
  const data = join(volume, dataDirectory.slice(mount.mountPath.length));
  await mkdir(data, { recursive: true });
  const files = { ...runFiles(directory), data };
  const kubeconfig = join(directory, 'pod.kubeconfig');
  await writeFile(kubeconfig, await operatorKubeconfig(cluster), { mode: 0o600 });
  return startOperator({
    files,
    kubeconfig,
    env: { ...env, ...PLACES, DATA_DIR: data, POD_NAMESPACE: NAMESPACE },
    signal: AbortSignal.timeout(90_000),
  });
}

async function settingsOf(
  cluster: TestCluster,
  { envFrom }: Container,
): Promise<readonly (readonly [name: string, value: string])[]> {
  const names = envFrom.flatMap(({ configMapRef }) => configMapRef?.name ?? []);
  const read = names.map(async (name) => {
    const get = ['get', 'configmap', name, '--namespace', NAMESPACE, '--output', 'json'];
    const { data = {} } = JSON.parse(await cluster.kubectl(get)) as {
      readonly data?: Readonly<Record<string, string>>;
    };
    return Object.entries(data);
  });
  return (await Promise.all(read)).flat();
}
