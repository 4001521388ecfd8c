import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { stablePort } from '../control-plane/ports.ts';
import { type ManagedProcess, startProcess } from '../processes/managed-process.ts';
import { OPERATOR_NAMESPACE } from './custom-resources.ts';
import type { RunFiles } from './run-directory.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** The operator's own default, which an operator that a person starts tries first. */
export const PEOPLES_PORT = 8080;

export interface OperatorOptions {
  readonly files: RunFiles;
  readonly kubeconfig: string;
  /** Laid over the caller's environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Options of Node itself, such as those of the shipped command; none by default. */
  readonly nodeOptions?: readonly string[];
  /** The program to run; `operator/main.ts` by default. */
  readonly program?: string;
  /** Tried at the first start, before any other: for one operator of a machine at most. */
  readonly preferredPort?: number;
  /** How long it may take until it is ready; by default that of {@link startProcess}. */
  readonly startTimeoutMs?: number;
  /** Aborting it gives up waiting for the operator. */
  readonly signal: AbortSignal;
}

export interface RunningOperator extends ManagedProcess {
  /** `http://127.0.0.1:<port>` */
  readonly address: string;
}

/**
 * Starts the operator from its sources and resolves once it is ready. Its address goes to a file; its
 * output to another, which each start begins anew.
 */
export async function startOperator(options: OperatorOptions): Promise<RunningOperator> {
  const { files } = options;
  const port = await stablePort(files.operatorPort, options.preferredPort);
  const address = `http://127.0.0.1:${port}`;
  writeFileSync(files.operatorLog, '');
  const started = await startProcess({
    name: 'operator',
    command: process.execPath,
    args: [...(options.nodeOptions ?? []), options.program ?? join(ROOT, 'operator/main.ts')],
    env: {
      ...process.env,
      DATA_DIR: files.data,
      LISTEN_ADDR: `127.0.0.1:${port}`,
      POD_NAMESPACE: OPERATOR_NAMESPACE,
      ...options.env,
      KUBECONFIG: options.kubeconfig,
    },
    logFile: files.operatorLog,
    pidFile: files.operatorPid,
    signal: options.signal,
    startTimeoutMs: options.startTimeoutMs,
    ready: async () => (await fetch(`${address}/readyz`)).ok,
  });
  writeFileSync(files.address, `${address}\n`);
  return { ...started, address };
}
