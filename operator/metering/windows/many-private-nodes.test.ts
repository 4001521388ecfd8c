import { describe, expect, test } from 'vitest';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { gpuNode, N1, N7 } from '../meters/testing/gpu-nodes.ts';
import { cluster } from '../meters/testing/objects.ts';
import { createHandTenant, type HandTenant } from './testing/hand-tenant.ts';
import { at, clockAt, eventsOf, pass, startProcess, windowsOf } from './testing/harness.ts';

const NODE = 'tenant_private_node_hours';
const REASON = (excluded: number, limit: number): string =>
  `${excluded} private nodes exceed the ${limit} of maxPrivateNodes and are not billed`;

/** Tenant cluster `a` with a limit of private nodes, and `b` without a limit. */
async function setUp(maxPrivateNodes: number) {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const tenants: HandTenant[] = [];
  const process = await startProcess({
    ledger,
    clock,
    restoreTenants: ({ tenantClusters }) => {
      for (const { id } of [cluster('a'), cluster('b')]) {
        tenants.push(createHandTenant({ id, clock, tenantClusters }));
      }
      return tenants;
    },
  });
  const limit = (most: number): void =>
    process.discover([cluster('a', { maxPrivateNodes: most }), cluster('b')]);
  limit(maxPrivateNodes);
  const [tenant, neighbour] = tenants;
  if (tenant === undefined || neighbour === undefined) throw new Error('two tenants');
  neighbour.node(gpuNode({ ...N1, name: 'n1' }));
  const events = async (id: string) =>
    (await eventsOf(ledger)).filter(({ dimensions }) => dimensions?.['tenant_cluster'] === id);
  return { clock, process, tenant, limit, events };
}

/** Node hours of the newest window, as node-minutes. */
function lastMinutes(events: Awaited<ReturnType<typeof eventsOf>>): number {
  const own = events.filter(({ metric }) => metric === NODE);
  const last = own.at(-1)?.window_end;
  const hours = own
    .filter(({ window_end }) => window_end === last)
    .reduce((sum, { quantity }) => sum + Number(quantity), 0);
  return Math.round(hours * 60);
}

describe('a tenant invents nodes', () => {
  test('those beyond maxPrivateNodes make no events, and are shown', async () => {
    const { clock, process, tenant, events } = await setUp(100);
    for (let index = 0; index < 3_000; index += 1) {
      tenant.node(gpuNode({ ...N7, name: `invented-${index}` }));
    }
    await pass(clock, 20 + 123);
    const own = await events(cluster('a').id);
    expect(lastMinutes(own)).toBe(100);
    expect(own.length).toBeLessThan(1_000);
    expect(process.collector.quarantinedTenants()).toEqual([
      { tenantCluster: cluster('a').id, reason: REASON(2_900, 100), since: at(60) },
    ]);
    expect(process.collector.gaps()).toEqual([
      {
        source: 'private-nodes',
        scope: cluster('a').id,
        from: at(0),
        to: at(120),
        reason: REASON(2_900, 100),
      },
    ]);
    expect(windowsOf(await events(cluster('b').id), NODE)).toEqual(['12:01:00', '12:02:00']);
    await process.kill();
  });

  test('the dearest are billed, however late they came', async () => {
    const { clock, process, tenant, events } = await setUp(2);
    for (let index = 0; index < 9; index += 1) {
      tenant.node(gpuNode({ name: `cheap-${index}`, capacity: { cpu: '500', memory: '8Ti' } }));
    }
    await pass(clock, 25);
    tenant.node(gpuNode({ ...N1, name: 'dear' }));
    await pass(clock, 60);
    const hours = (await events(cluster('a').id)).filter(
      ({ metric }) => metric === 'tenant_gpu_hours',
    );
    expect(hours.length).toBeGreaterThan(0);
    await process.kill();
  });

  test('a limit that is raised bills them from the next window on, and what was excluded stays a gap', async () => {
    const { clock, process, tenant, limit, events } = await setUp(1);
    for (const name of ['one', 'two', 'three']) {
      tenant.node(gpuNode({ ...N1, name }));
    }
    await pass(clock, 20 + 90);
    limit(3);
    await pass(clock, 40);
    expect(lastMinutes(await events(cluster('a').id))).toBe(1);
    await pass(clock, 60);
    expect(lastMinutes(await events(cluster('a').id))).toBe(3);
    expect(process.collector.quarantinedTenants()).toEqual([]);
    const gap = { source: 'private-nodes', from: at(0), to: at(120), reason: REASON(2, 1) };
    expect(process.collector.gaps()).toMatchObject([gap]);
    await process.kill();
  });
});
