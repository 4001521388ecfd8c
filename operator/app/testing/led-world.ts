import type { TestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { ROLE_LABEL } from '../../kubernetes/leader-label.ts';
import { isRecord } from '../../model/is-record.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { type OperatorProcess, ownCluster, startOperator } from './operator-process.ts';

/** A process of the operator on a database, in a pod that nothing else runs in. */
export interface LedProcess extends Pick<OperatorProcess, 'get' | 'log' | 'stop'> {
  readonly pod: string;
  /** Whether its pod has the label of the leader. */
  isLabelled(): Promise<boolean>;
  /** Resolves when it says that it leads, with everything listed. */
  leads(): Promise<void>;
}

export interface LedProcessOptions {
  readonly cluster: TestCluster;
  readonly namespace: string;
  readonly pod: string;
  /** LEDGER_URL. */
  readonly url: string;
  readonly clock?: Clock;
  readonly environment?: Readonly<Record<string, string>>;
  /** Of the API server, where it is not reached directly. */
  readonly kubeconfigPath?: string;
}

export async function startLedProcess(options: LedProcessOptions): Promise<LedProcess> {
  const { cluster, namespace, pod, url, clock } = options;
  await cluster.call('POST', `/api/v1/namespaces/${namespace}/pods`, {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: pod, labels: { [ROLE_LABEL]: 'leader' } },
    spec: { containers: [{ name: 'operator', image: 'none' }] },
  });
  const process = await startOperator({
    cluster: ownCluster(options.kubeconfigPath ?? cluster.kubeconfigPath, namespace),
    environment: {
      COLLECTION_INTERVAL: '10s',
      RECONCILE_INTERVAL: '1s',
      LEDGER_URL: url,
      LEDGER_DURABILITY: 'storage',
      ...options.environment,
    },
    instance: pod,
    pod,
    clock,
  });
  return {
    ...process,
    pod,
    isLabelled: async () => {
      const { metadata } = await cluster.call('GET', `/api/v1/namespaces/${namespace}/pods/${pod}`);
      const labels = isRecord(metadata) ? metadata['labels'] : undefined;
      return isRecord(labels) && labels[ROLE_LABEL] === 'leader';
    },
    leads: () => process.answers('/leaderz'),
  };
}
