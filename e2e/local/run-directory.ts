import { join, resolve } from 'node:path';

/** Where `make run` keeps the cluster, the ledger and what it saw; `make clean` removes it. */
export const RUN_DIRECTORY = resolve(import.meta.dirname, '../../.run');

/** The files of a run directory. `etcd/`, `kubeconfig` and the control plane's own files lie beside them. */
export interface RunFiles {
  readonly directory: string;
  readonly kubeconfig: string;
  /** The operator's ledger. */
  readonly data: string;
  readonly operatorLog: string;
  /** Of the operator that ended unasked last. */
  readonly lastOperatorLog: string;
  readonly operatorPid: string;
  readonly operatorPort: string;
  /** The token of the operator's API that was made for this directory, one line. */
  readonly apiToken: string;
  /** The address of the operator's API, one line. */
  readonly address: string;
  /** Every event that the receiver accepted, one per line. */
  readonly received: string;
  readonly receiverPort: string;
  /** Every request that changed the stand-in for Lago, one per line. */
  readonly lago: string;
  readonly lagoPort: string;
  /** What really happened to every simulated pod that ended, one per line. */
  readonly truth: string;
  /** The process of `make run` itself. */
  readonly runPid: string;
  /** A second control plane: the own API server of a tenant cluster with nodes of its own. */
  readonly tenantPlane: string;
  /** A link to the kubectl on the PATH where its version fits, else to the one of the control plane. */
  readonly kubectl: string;
}

export function runFiles(directory: string = RUN_DIRECTORY): RunFiles {
  const file = (name: string): string => join(directory, name);
  return {
    directory,
    kubeconfig: file('kubeconfig'),
    data: file('data'),
    operatorLog: file('operator.log'),
    lastOperatorLog: file('operator.1.log'),
    operatorPid: file('operator.pid'),
    operatorPort: file('operator.port'),
    apiToken: file('api-token'),
    address: file('address'),
    received: file('received.ndjson'),
    receiverPort: file('receiver.port'),
    lago: file('lago.ndjson'),
    lagoPort: file('lago.port'),
    truth: file('truth.ndjson'),
    runPid: file('run.pid'),
    tenantPlane: file('tenant-plane'),
    kubectl: file('kubectl'),
  };
}
