import { setImmediate } from 'node:timers';
import { expect, test, vi } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { gpuNode, N1 } from '../meters/testing/gpu-nodes.ts';
import { cluster } from '../meters/testing/objects.ts';
import { createHandTenant, type HandTenant } from './testing/hand-tenant.ts';
import { at, clockAt, eventsOf, pass, settingsOf, startProcess } from './testing/harness.ts';

const A = cluster('a');
/** Reading nodes takes this long, which is more than a slice. */
const READ_MS = 30;
const METRICS = ['tenant_private_node_hours', 'tenant_gpu_hours'];

/** Tenant clusters with one node each; `between` runs in every pause of measuring them. */
async function setUp(between: (tenant: HandTenant) => void, clusters = [A]) {
  const clock = clockAt(-20);
  const begun = clock.now() - clock.monotonic();
  let worked = 0;
  const reads = { inOneSlice: 0, most: 0, all: 0 };
  vi.spyOn(clock, 'monotonic').mockImplementation(() => clock.now() - begun + worked);
  const ledger = createMemoryLedger();
  const tenants: HandTenant[] = [];
  const process = await startProcess({
    ledger,
    clock,
    settings: { current: settingsOf({ COLLECTION_INTERVAL: '60s' }) },
    restoreTenants: ({ tenantClusters }) => {
      for (const { id } of clusters) {
        const tenant = createHandTenant({ id, clock, tenantClusters });
        const { nodes } = tenant.observation;
        const nodesIn = nodes.inNamespace.bind(nodes);
        vi.spyOn(nodes, 'inNamespace').mockImplementation((namespace) => {
          worked += READ_MS;
          reads.all += 1;
          reads.inOneSlice += 1;
          reads.most = Math.max(reads.most, reads.inOneSlice);
          setImmediate(() => {
            reads.inOneSlice = 0;
            between(tenant);
          });
          return nodesIn(namespace);
        });
        tenants.push(tenant);
      }
      return tenants;
    },
  });
  process.discover(clusters);
  for (const tenant of tenants) tenant.node(gpuNode(N1));
  const hoursOf = async (node: string) => {
    const events = await eventsOf(ledger);
    return METRICS.map((metric) =>
      events
        .filter(({ metric: of, dimensions }) => of === metric && dimensions?.['node'] === node)
        .reduce((sum, { quantity }) => sum + Number(quantity), 0),
    );
  };
  return { clock, process, reads, tenants, hoursOf };
}

const created = (name: string, time: number): RawObject => {
  const { metadata, ...rest } = gpuNode({ ...N1, name }) as { readonly metadata: object };
  return { ...rest, metadata: { ...metadata, creationTimestamp: new Date(time).toISOString() } };
};

test.each([1, 2, 3, 4, 5, 6])(
  'a node that comes to light in pause %i of measuring its window is billed in parts, or twice',
  async (pause) => {
    let pauses = 0;
    const { clock, process, hoursOf } = await setUp((tenant) => {
      if (clock.now() < at(60)) return;
      pauses += 1;
      // It existed for half of the window that is being closed.
      if (pauses === pause) tenant.node(created('late', at(30)));
    });
    await pass(clock, 20 + 60 * 4 + 10);
    expect(pauses).toBeGreaterThan(pause);
    const [nodeHours, gpuHours] = await hoursOf('late');
    expect(nodeHours).toBeCloseTo(3.5 / 60, 8);
    expect(gpuHours).toBeCloseTo((8 * 3.5) / 60, 7);
    const [firstHours] = await hoursOf('n1');
    expect(firstHours).toBeCloseTo(4 / 60, 8);
    await process.kill();
  },
);

test('a tenant cluster whose nodes change all the time is measured in one piece', async () => {
  let changes = 0;
  const { clock, process, reads, hoursOf } = await setUp((tenant) => {
    changes += 1;
    tenant.node(gpuNode({ ...N1, labels: { ...N1.labels, 'example.com/n': String(changes) } }));
  });
  await pass(clock, 20 + 60 * 3 + 10);
  expect(reads.all).toBeGreaterThan(12);
  expect(reads.most).toBeLessThan(reads.all / 6);
  const [nodeHours, gpuHours] = await hoursOf('n1');
  expect(nodeHours).toBeCloseTo(3 / 60, 8);
  expect(gpuHours).toBeCloseTo((8 * 3) / 60, 7);
  await process.kill();
});

test('a tenant cluster that can be closed as of late, while another is measured, is measured in one piece', async () => {
  const world = await setUp(
    ({ id }) => {
      if (id === A.id) world.tenants[0]?.recover();
    },
    [cluster('b'), A],
  );
  const { clock, process, reads, tenants, hoursOf } = world;
  for (let minute = 0; minute < 3; minute += 1) {
    tenants[0]?.fail('out of reach');
    await pass(clock, minute === 0 ? 20 + 70 : 60);
  }
  expect(reads.all).toBeGreaterThan(12);
  expect(reads.most).toBeLessThan(reads.all / 12);
  const [nodeHours] = await hoursOf('n1');
  expect(nodeHours).toBeCloseTo((2 * 3) / 60, 8);
  await process.kill();
});
