import { RUNS_SECONDS, STOPS_SECONDS } from './pod-run.ts';

/** What one pod asks for. */
export interface Size {
  /** Thousandths of a core. */
  readonly cpuMillis: number;
  readonly memoryMi: number;
  readonly gpus: number;
}

export interface WorkloadOptions {
  readonly name: string;
  readonly namespace: string;
  readonly size: Size;
  readonly graceSeconds?: number;
  /** Of the containers' lives, by themselves. */
  readonly runsSeconds?: number;
  /** How soon they obey a stop; by default they use up their grace. */
  readonly stopsSeconds?: number;
  /** An init container that asks for more than all others together. */
  readonly initCpuMillis?: number;
  /** Labels that claim to be another's, or the control plane's own. */
  readonly spoof?: Readonly<Record<string, string>>;
}

export function namespaceObject(name: string, labels: Readonly<Record<string, string>>): object {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
}

export function deployment(options: WorkloadOptions, replicas: number): object {
  const { name, namespace } = options;
  const selector = { matchLabels: { job: name } };
  const spec = { replicas, selector, template: template(options, 'Always') };
  return { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name, namespace }, spec };
}

export function job(options: WorkloadOptions, completions: number, parallelism: number): object {
  const { name, namespace } = options;
  const spec = { completions, parallelism, template: template(options, 'Never') };
  return { apiVersion: 'batch/v1', kind: 'Job', metadata: { name, namespace }, spec };
}

/** With a volume for each pod. */
export function statefulSet(options: WorkloadOptions, replicas: number, sizeGi: number): object {
  const { name, namespace } = options;
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name, namespace },
    spec: {
      replicas,
      serviceName: name,
      selector: { matchLabels: { job: name } },
      template: template(options, 'Always'),
      volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: claimSpec(sizeGi) }],
    },
  };
}

export function claim(name: string, namespace: string, sizeGi: number): object {
  const labels = { app: 'vcluster', release: 'another' };
  const metadata = { name, namespace, labels };
  return { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata, spec: claimSpec(sizeGi) };
}

export function loadBalancer(name: string, namespace: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace },
    spec: { type: 'LoadBalancer', selector: { job: 'web' }, ports: [{ port: 80 }] },
  };
}

function claimSpec(sizeGi: number): object {
  return {
    accessModes: ['ReadWriteOnce'],
    storageClassName: 'fast',
    resources: { requests: { storage: `${sizeGi}Gi` } },
  };
}

function template(options: WorkloadOptions, restartPolicy: string): object {
  const { name, size, graceSeconds = 5, runsSeconds, stopsSeconds, initCpuMillis, spoof } = options;
  const gpus = size.gpus === 0 ? {} : { 'nvidia.com/gpu': String(size.gpus) };
  const requests = { cpu: `${size.cpuMillis}m`, memory: `${size.memoryMi}Mi`, ...gpus };
  const init = {
    name: 'prepare',
    image: 'example.com/prepare',
    resources: { requests: { cpu: `${initCpuMillis}m` } },
  };
  return {
    metadata: {
      labels: { ...spoof, job: name },
      annotations: {
        ...(runsSeconds === undefined ? {} : { [RUNS_SECONDS]: String(runsSeconds) }),
        ...(stopsSeconds === undefined ? {} : { [STOPS_SECONDS]: String(stopsSeconds) }),
      },
    },
    spec: {
      restartPolicy,
      terminationGracePeriodSeconds: graceSeconds,
      ...(initCpuMillis === undefined ? {} : { initContainers: [init] }),
      containers: [
        { name: 'main', image: 'example.com/main', resources: { requests, limits: gpus } },
        {
          name: 'side',
          image: 'example.com/side',
          resources: { requests: { cpu: '50m', memory: '64Mi' } },
        },
      ],
    },
  };
}
