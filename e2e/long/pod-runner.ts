import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parse } from 'yaml';
import { isRecord } from '../../operator/model/is-record.ts';
import type { TestCluster } from '../control-plane/test-cluster.ts';
import { OPERATOR_NAMESPACE } from '../local/custom-resources.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import type { RunFiles } from '../local/run-directory.ts';
import { writeFileSync } from 'node:fs';

const POD = 'meterfeed-0';
const PODS = `/api/v1/namespaces/${OPERATOR_NAMESPACE}/pods`;
const CLAIM = `/api/v1/namespaces/${OPERATOR_NAMESPACE}/persistentvolumeclaims/data-${POD}`;
const POLL_MS = 200;

export interface PodRunnerOptions {
  readonly cluster: TestCluster;
  readonly files: RunFiles;
  /** What the ConfigMap of an overlay would say. */
  readonly env: Readonly<Record<string, string>>;
}

/** What the runner did, in order: `started`, `exit code 0`. */
export type PodHistory = readonly string[];

/**
 * Stands in for the kubelet of the operator's pod: runs the operator from its sources while the pod is there, with the
 * token of its ServiceAccount and the directory of its volume, and lets a deleted pod go once the operator has ended.
 */
export class PodRunner {
  readonly #options: PodRunnerOptions;
  readonly #stopping = new AbortController();
  readonly #history: string[] = [];
  #operator: RunningOperator | undefined;
  #running: Promise<void> | undefined;

  constructor(options: PodRunnerOptions) {
    this.#options = options;
  }

  get history(): PodHistory {
    return this.#history;
  }

  /** Of the operator's API; undefined while no pod runs. */
  get address(): string | undefined {
    return this.#operator?.address;
  }

  start(): void {
    this.#running = this.#run();
    // Whoever stops it is told.
    this.#running.catch(() => {});
  }

  /** Ends the operator, and leaves the pod as it is. Rejects with what went wrong on the way. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    await this.#end();
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      await this.#poll();
      await delay(POLL_MS);
    }
  }

  async #poll(): Promise<void> {
    const { cluster } = this.#options;
    const { status, body } = await cluster.request('GET', `${PODS}/${POD}`);
    if (status !== 200) return this.#end();
    const { metadata, spec } = body;
    if (isRecord(metadata) && metadata['deletionTimestamp'] !== undefined) {
      await this.#end();
      await cluster.request('DELETE', `${PODS}/${POD}?gracePeriodSeconds=0`);
      return;
    }
    if (this.#operator !== undefined || !isRecord(spec)) return;
    const directory = await this.#volume();
    if (directory === undefined) return;
    if (spec['nodeName'] === undefined) await this.#bind();
    await this.#begin(directory);
  }

  /** Where the claim's volume is on this machine; undefined until it is bound. */
  async #volume(): Promise<string | undefined> {
    const { cluster } = this.#options;
    const claim = await cluster.request('GET', CLAIM);
    const { spec, status } = claim.body;
    if (!isRecord(spec) || !isRecord(status) || status['phase'] !== 'Bound') return undefined;
    const path = `/api/v1/persistentvolumes/${String(spec['volumeName'])}`;
    const volume = (await cluster.call('GET', path))['spec'];
    const hostPath = isRecord(volume) ? volume['hostPath'] : undefined;
    return isRecord(hostPath) ? String(hostPath['path']) : undefined;
  }

  async #bind(): Promise<void> {
    const target = { apiVersion: 'v1', kind: 'Node', name: 'local' };
    const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name: POD }, target };
    await this.#options.cluster.call('POST', `${PODS}/${POD}/binding`, binding);
  }

  async #begin(directory: string): Promise<void> {
    const { cluster, files, env } = this.#options;
    const kubeconfig = join(files.directory, 'service-account.kubeconfig');
    writeFileSync(kubeconfig, await this.#credentials(), { mode: 0o600 });
    this.#operator = await startOperator({
      files,
      kubeconfig,
      env: { ...env, DATA_DIR: directory },
      signal: AbortSignal.timeout(60_000),
    });
    this.#history.push('started');
    void this.#operator.exited.then((how) => this.#history.push(how));
    const ready = { type: 'Ready', status: 'True', lastTransitionTime: new Date().toISOString() };
    await cluster.kubectl([
      'patch',
      `--namespace=${OPERATOR_NAMESPACE}`,
      'pod',
      POD,
      '--subresource=status',
      '--type=merge',
      `--patch=${JSON.stringify({ status: { phase: 'Running', conditions: [ready] } })}`,
    ]);
  }

  /** The administrator's kubeconfig with the token of the pod's ServiceAccount in the place of the certificate. */
  async #credentials(): Promise<string> {
    const { cluster } = this.#options;
    const args = ['create', 'token', 'meterfeed', `--namespace=${OPERATOR_NAMESPACE}`];
    const token = (await cluster.kubectl(args)).trim();
    const config = parse(cluster.kubeconfig) as { readonly users: readonly { name: string }[] };
    const users = config.users.map(({ name }) => ({ name, user: { token } }));
    return JSON.stringify({ ...config, users });
  }

  async #end(): Promise<void> {
    const operator = this.#operator;
    this.#operator = undefined;
    await operator?.stop(30_000);
  }
}
