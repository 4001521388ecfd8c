import { mkdirSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { join } from 'node:path';
import { createApiClient } from '../simulator/api-client.ts';
import type { KubeObject } from '../simulator/objects.ts';
import { runFiles } from '../local/run-directory.ts';
import { manifest, OPERATOR_NAMESPACE } from '../local/custom-resources.ts';
import { createKubectl } from '../control-plane/kubectl.ts';
import { compare, type Comparison } from './compare.ts';
import { furnish, startHost } from './host.ts';
import { HostAgents } from './host-agents.ts';
import { requireNamespaces } from './namespaces.ts';
import { Operator } from './operator.ts';
import { findPrograms } from './programs.ts';
import { install } from './release.ts';
import { playScenario } from './scenario.ts';
import { Tenant } from './tenant.ts';
import { truthOf } from './truth.ts';
import { VirtualPods } from './virtual-pods.ts';

export interface MeasureOptions {
  readonly seed: number;
  readonly log: (line: string) => void;
}

export interface Measured extends Comparison {
  /** What the operator billed to nobody, and listed: `namespace/name`. */
  readonly unattributed: readonly string[];
  /** Of tenants, those that ran. */
  readonly pods: number;
  /** How long was measured. */
  readonly seconds: number;
}

const NAMES = ['red', 'blue'];

/**
 * Runs two real vClusters on a real control plane, with the operator beside them, plays a scenario through their own APIs
 * and holds the bills against what they and the stand-ins for kubelet, provisioner and load balancer did.
 */
export async function measure({ seed, log }: MeasureOptions): Promise<Measured> {
  await requireNamespaces();
  // What has no time in the API counts from its arrival, here and at the operator: neither may wait for a busy machine.
  setPriority(constants.priority.PRIORITY_HIGH);
  const programs = await findPrograms(log);
  const host = await startHost(programs);
  const ending = new AbortController();
  const { signal } = ending;
  const { plane } = host;
  const api = createApiClient(plane.credentials, signal);
  const files = runFiles(join(plane.directory, 'operator'));
  const operator = new Operator(files, plane.kubeconfigPath);
  const tenants: Tenant[] = [];
  try {
    await furnish(api);
    for (const name of NAMES) {
      tenants.push(await Tenant.create({ name, host: plane, programs }));
    }
    const agents = new HostAgents({
      api,
      credentials: plane.credentials,
      workOf: (pod) => tenants.find((tenant) => runs(tenant, pod)),
      log,
      signal,
    });
    void agents.run();
    const kubectl = createKubectl(plane.kubectl, plane.kubeconfigPath);
    const metadata = { name: OPERATOR_NAMESPACE };
    await kubectl(
      ['apply', '-f', '-'],
      manifest([{ apiVersion: 'v1', kind: 'Namespace', metadata }]),
    );
    mkdirSync(files.directory);
    await operator.start();
    await operator.closedBeyond(0);
    log('the first window is closed; the tenants come');

    const virtual = new Map<string, VirtualPods>();
    await Promise.all(
      tenants.map(async (tenant) => {
        await install(kubectl, tenant, programs.config);
        await tenant.started();
        const pods = new VirtualPods();
        virtual.set(tenant.namespace, pods);
        void pods.follow(tenant.credentials, signal);
        log(`${tenant.name}: runs`);
      }),
    );
    await playScenario({ tenants, kubectl, operator, agents, seed, log });
    const ended = Date.now();
    // What is told late of the last window is settled in the next one.
    await operator.closedBeyond(ended + 10_000);
    const stated = await operator.stated();
    const { unattributed, stretch } = stated;
    const truth = truthOf(agents, virtual);
    return {
      ...compare(truth, stated),
      unattributed,
      pods: truth.dues.filter(({ metric }) => metric === 'tenant_cpu_core_hours').length,
      seconds: (stretch.to - stretch.from) / 1000,
    };
  } finally {
    await operator.stop();
    for (const tenant of tenants) await tenant.close();
    ending.abort();
    await api.close();
    await host.stop();
  }
}

/** Whether it is the pod of this tenant's own control plane. */
function runs({ name, namespace }: Tenant, { metadata }: KubeObject): boolean {
  return metadata.namespace === namespace && metadata.name === `${name}-0`;
}
