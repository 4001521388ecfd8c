import { setTimeout as delay } from 'node:timers/promises';
import { CATCH_UP_MS } from '../../operator/kubernetes/watch-health.ts';
import type { Kubectl } from '../control-plane/kubectl.ts';
import { manifest } from '../local/custom-resources.ts';
import { until } from '../processes/until.ts';
import type { HostAgents } from './host-agents.ts';
import type { Operator } from './operator.ts';
import { type Random, seeded } from './random.ts';
import { pause, resume, uninstall } from './release.ts';
import type { Tenant } from './tenant.ts';
import * as workloads from './workloads.ts';

export interface ScenarioOptions {
  readonly tenants: readonly Tenant[];
  /** On the host, as its administrator. */
  readonly kubectl: Kubectl;
  readonly operator: Operator;
  readonly agents: HostAgents;
  readonly seed: number;
  readonly log: (line: string) => void;
}

/** Cut and hashed on the host, together with the names in it. */
const LONG = 'team-b-with-a-quite-long-name-that-goes-on-and-on-and-on-end';

/** What a tenant would write to be taken for another one, or for its own control plane. */
const SPOOF = {
  app: 'vcluster',
  release: 'another',
  'vcluster.loft.sh/managed-by': 'another',
  'vcluster.loft.sh/namespace': 'spoof',
};

/**
 * Plays what tenants and administrators do, sizes and pauses decided by the seed. The last tenant is paused and resumed,
 * the first one is uninstalled while its pods still use their grace.
 */
export async function playScenario(options: ScenarioOptions): Promise<void> {
  const { tenants, kubectl, operator, agents, seed, log } = options;
  const random = seeded(seed);
  const [first, ...others] = tenants;
  const last = others.at(-1);
  if (first === undefined || last === undefined) throw new RangeError('vcluster: two tenants');
  const wait = (least: number, most: number): Promise<void> =>
    delay(random.between(least, most) * 1000);

  // First, and in peace, what has no time in the API: both who meter it and who watch them know it by its arrival.
  for (const tenant of tenants) await provide(tenant, random);
  await wait(5, 8);
  for (const tenant of tenants) await deploy(tenant, random);
  log('deployed');
  await wait(40, 60);
  for (const tenant of tenants) await churn(tenant, random);
  log('scaled, deleted with and without grace');
  await wait(8, 15);
  await Promise.all(tenants.map((tenant) => drain(tenant, 'cpu-1')));
  log('drained');
  await wait(5, 10);

  const batch = { name: 'while-away', namespace: 'team-a', size: sizeOf(random), runsSeconds: 4 };
  await first.kubectl(['apply', '-f', '-'], manifest([workloads.job(batch, 3, 3)]));
  await operator.stop();
  log('the operator is away');
  await wait(10, 15);
  await operator.start();
  log('the operator is back');
  // Before that, what has no time in the API counts from before the stop (docs/explanation/gaps.md#changes-that-nobody-saw).
  await delay(CATCH_UP_MS);
  await wait(1, 3);

  await pause(kubectl, last);
  log(`${last.name}: paused`);
  await wait(15, 20);
  await resume(kubectl, last);
  await eventually(() => agents.instances.some(({ object, to }) => runsIn(last, object, to)));
  log(`${last.name}: resumed`);
  await wait(20, 25);

  await last.kubectl(['delete', 'service', 'front', '--namespace=team-a']);
  await last.kubectl(['delete', 'pvc', 'scratch', '--namespace=team-a', '--wait=false']);
  await uninstall(kubectl, first);
  log(`${first.name}: uninstalled, its pods are still ending`);
  const ending = (): boolean =>
    agents.pods.some(
      ({ pod, to }) => pod.metadata.namespace === first.namespace && to === undefined,
    );
  await eventually(() => !ending());
  log(`${first.name}: its last pod has ended`);
  await wait(5, 10);
}

async function provide({ kubectl }: Tenant, random: Random): Promise<void> {
  await kubectl(
    ['apply', '-f', '-'],
    manifest([
      workloads.namespaceObject('team-a', { 'vcluster.loft.sh/managed-by': 'another' }),
      workloads.namespaceObject(LONG, {}),
      workloads.claim('scratch', 'team-a', random.between(20, 60)),
      // The StatefulSet finds the first one of its own.
      workloads.claim('data-db-0', LONG, 100),
      workloads.loadBalancer('front', 'team-a'),
    ]),
  );
}

async function deploy({ kubectl }: Tenant, random: Random): Promise<void> {
  const team = { namespace: 'team-a' };
  const train = { cpuMillis: random.between(8, 16) * 250, memoryMi: 16_384, gpus: 1 };
  const batch = { name: 'batch', ...team, size: sizeOf(random), runsSeconds: random.between(3, 9) };
  await kubectl(
    ['apply', '-f', '-'],
    manifest([
      workloads.deployment(
        {
          name: 'train',
          ...team,
          size: train,
          graceSeconds: 25,
          initCpuMillis: train.cpuMillis + 1000,
          spoof: SPOOF,
        },
        random.between(1, 3),
      ),
      workloads.deployment({ name: 'web', ...team, size: sizeOf(random), stopsSeconds: 1 }, 3),
      workloads.statefulSet({ name: 'db', namespace: LONG, size: sizeOf(random) }, 2, 100),
      workloads.job(batch, random.between(4, 8), 2),
    ]),
  );
}

async function churn({ kubectl }: Tenant, random: Random): Promise<void> {
  const at = '--namespace=team-a';
  await kubectl(['scale', 'deployment/web', at, `--replicas=${random.between(4, 6)}`]);
  const names = await kubectl(['get', 'pods', at, '--selector=job=web', '--output=name']);
  const [forced = '', requested = ''] = names.trim().split('\n');
  await kubectl(['delete', forced, at, '--grace-period=0', '--force']);
  await kubectl(['delete', requested, at, '--wait=false']);
}

/** By eviction through the virtual API; the node itself, which the syncer made up, stays cordoned there. */
async function drain({ kubectl }: Tenant, node: string): Promise<void> {
  const nodes = await kubectl(['get', 'nodes', '--output=name']);
  if (!nodes.includes(`node/${node}`)) return;
  await kubectl(['drain', node, '--ignore-daemonsets', '--delete-emptydir-data', '--force']);
}

function sizeOf(random: Random): workloads.Size {
  return {
    cpuMillis: random.between(1, 8) * 125,
    memoryMi: random.between(1, 16) * 256,
    gpus: 0,
  };
}

function runsIn(
  tenant: Tenant,
  object: HostAgents['instances'][number]['object'],
  to?: number,
): boolean {
  return object.metadata.namespace === tenant.namespace && to === undefined;
}

const PATIENCE = { patienceMs: 120_000, lookMs: 200 };

function eventually(done: () => boolean): Promise<void> {
  return until(done, 'vcluster: waited in vain', PATIENCE);
}
