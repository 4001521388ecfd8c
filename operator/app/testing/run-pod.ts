import type { TestCluster } from '../../../e2e/control-plane/test-cluster.ts';

/** Makes a pod with one core that has begun in this second, and gives that moment. */
export async function runPod(
  cluster: TestCluster,
  {
    namespace,
    name,
    labels = {},
    now = Date.now(),
  }: {
    readonly namespace: string;
    readonly name: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly now?: number;
  },
): Promise<number> {
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const made = await cluster.call('POST', path, {
    metadata: { name, labels },
    spec: {
      nodeName: 'node-1',
      containers: [{ name: 'c', image: 'i', resources: { requests: { cpu: '1' } } }],
    },
  });
  const at = Math.floor(now / 1000) * 1000;
  const startedAt = new Date(at).toISOString();
  const container = { name: 'c', image: 'i', imageID: 'i', ready: true, restartCount: 0 };
  const containerStatuses = [{ ...container, state: { running: { startedAt } } }];
  const status = { phase: 'Running', containerStatuses };
  await cluster.call('PUT', `${path}/${name}/status`, { ...made, status });
  return at;
}
