import { manifest } from '../local/custom-resources.ts';
import type { Kubectl } from '../control-plane/kubectl.ts';

/** A vCluster as its chart installs it on the host. */
export interface Release {
  readonly name: string;
  readonly namespace: string;
}

/** Makes the objects of the chart that bear on metering or that the vCluster asks for. */
export async function install(kubectl: Kubectl, release: Release, config: string): Promise<void> {
  const { name, namespace } = release;
  const selected = { app: 'vcluster', release: name };
  const labels = { ...selected, chart: 'vcluster-0.36.0', heritage: 'Helm' };
  const port = { name: 'https', port: 443, targetPort: 8443, protocol: 'TCP' };
  const kubelet = { ...port, name: 'kubelet', port: 10250 };
  const metadata = { name, namespace, labels };
  await kubectl(
    ['apply', '--filename', '-'],
    manifest([
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
      {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { ...metadata, name: `vc-config-${name}` },
        stringData: { 'config.yaml': config },
      },
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { ...metadata, labels: { ...labels, 'vcluster.loft.sh/service': 'true' } },
        spec: { type: 'ClusterIP', selector: selected, ports: [port, kubelet] },
      },
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { ...metadata, name: `${name}-headless` },
        spec: { clusterIP: 'None', selector: selected, ports: [port] },
      },
      { apiVersion: 'apps/v1', kind: 'StatefulSet', metadata, spec: workload(name, selected) },
    ]),
  );
}

function workload(name: string, labels: Readonly<Record<string, string>>): object {
  const image = 'ghcr.io/loft-sh/vcluster-pro:0.36.0';
  const requests = { cpu: '200m', memory: '256Mi', 'ephemeral-storage': '400Mi' };
  return {
    replicas: 1,
    serviceName: `${name}-headless`,
    podManagementPolicy: 'Parallel',
    selector: { matchLabels: labels },
    template: {
      metadata: { labels },
      spec: {
        terminationGracePeriodSeconds: 15,
        containers: [{ name: 'syncer', image, resources: { requests } }],
      },
    },
    volumeClaimTemplates: [
      {
        metadata: { name: 'data' },
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '5Gi' } } },
      },
    ],
  };
}

/** What `vcluster pause` does: scales the control plane away and deletes the pods that it synced. */
export async function pause(kubectl: Kubectl, { name, namespace }: Release): Promise<void> {
  const annotations = { 'loft.sh/paused': 'true', 'loft.sh/paused-replicas': '1' };
  const patch = JSON.stringify({ metadata: { annotations }, spec: { replicas: 0 } });
  const at = ['--namespace', namespace];
  await kubectl(['patch', 'statefulset', name, ...at, '--type=merge', '--patch', patch]);
  const none = `--for=jsonpath={.status.replicas}=0`;
  await kubectl(['wait', `statefulset/${name}`, ...at, none, '--timeout=180s']);
  const synced = `--selector=vcluster.loft.sh/managed-by=${name}`;
  await kubectl(['delete', 'pods', ...at, synced, '--wait=false']);
}

/** What `vcluster resume` does. */
export async function resume(kubectl: Kubectl, { name, namespace }: Release): Promise<void> {
  const annotations = { 'loft.sh/paused': null, 'loft.sh/paused-replicas': null };
  const patch = JSON.stringify({ metadata: { annotations }, spec: { replicas: 1 } });
  const args = ['--namespace', namespace, '--type=merge', '--patch', patch];
  await kubectl(['patch', 'statefulset', name, ...args]);
}

/** What `helm uninstall` does: what was synced goes with the Service that owns it. */
export async function uninstall(kubectl: Kubectl, { name, namespace }: Release): Promise<void> {
  const kinds = 'statefulsets,services,secrets';
  const chosen = ['--namespace', namespace, `--selector=app=vcluster,release=${name}`];
  await kubectl(['delete', kinds, ...chosen, '--wait=false']);
}
