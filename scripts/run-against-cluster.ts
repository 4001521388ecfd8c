import { resolve } from 'node:path';
import { PEOPLES_PORT, startOperator } from '../e2e/local/operator-process.ts';
import { RUN_DIRECTORY, runFiles } from '../e2e/local/run-directory.ts';
import { logTail } from '../e2e/processes/managed-process.ts';
import { endRemembered } from '../e2e/processes/pid-file.ts';
import { mkdir } from 'node:fs/promises';
import { untilSignal } from './until-signal.ts';

/**
 * `make run-against-cluster`: the operator from its sources against the cluster of KUBECONFIG, with
 * the caller's environment. It applies nothing to the cluster. `kubectl apply -k .` does, and
 * creates the namespace that the operator needs for its lease.
 */
const kubeconfig = process.env['KUBECONFIG'];
if (kubeconfig === undefined || kubeconfig === '') {
  console.error('KUBECONFIG: missing; name the kubeconfig of the cluster to meter');
  process.exit(1);
}
const files = runFiles(resolve(RUN_DIRECTORY, 'against-cluster'));
await mkdir(files.directory, { recursive: true });
await endRemembered(files.operatorPid);
const interrupted = untilSignal();
console.log(`starting the operator against ${kubeconfig}; log: ${files.operatorLog}`);
const operator = await startOperator({
  files,
  kubeconfig,
  env: {},
  preferredPort: PEOPLES_PORT,
  signal: interrupted.signal,
}).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  return process.exit(1);
});
console.log(
  `ready\n\nAPI and dashboard  ${operator.address}\nlog                ${files.operatorLog}`,
);
const failure = await Promise.race([operator.exited, interrupted.promise]);
if (failure !== undefined) {
  console.error(`operator: ${failure}. It ended with\n${logTail(files.operatorLog)}`);
  process.exitCode = 1;
}
await operator.stop();
