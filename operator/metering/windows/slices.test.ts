import { expect, test, vi } from 'vitest';
import type { ManualClock } from '../../kubernetes/testing/manual-clock.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import { gpuNode, N1 } from '../meters/testing/gpu-nodes.ts';
import { cluster } from '../meters/testing/objects.ts';
import { createHandTenant, type HandTenant } from './testing/hand-tenant.ts';
import { clockAt, eventsOf, pass, settingsOf, startProcess } from './testing/harness.ts';

const CLUSTERS = ['a', 'b', 'c'].map((name) => cluster(name));
const MINUTES = 3;

interface World {
  /** Window size. */
  readonly seconds?: number;
  /** The id of a tenant cluster whose API does not answer. */
  readonly silent?: string;
  /** How many objects a tenant cluster appears to have. */
  readonly objects?: number;
}

/** Each tenant cluster has too many objects to share a slice with another one. */
async function start(
  clock: ManualClock,
  ledger: Ledger,
  { seconds = 60, silent = '', objects = 600 }: World = {},
) {
  const tenants: HandTenant[] = [];
  const process = await startProcess({
    ledger,
    clock,
    settings: { current: settingsOf({ COLLECTION_INTERVAL: `${seconds}s` }) },
    restoreTenants: ({ tenantClusters }) => {
      for (const { id } of CLUSTERS) {
        const tenant = createHandTenant({ id, clock, tenantClusters });
        const { nodes } = tenant.observation;
        vi.spyOn(nodes, 'size', 'get').mockReturnValue(objects);
        tenant.listed = false;
        tenants.push(tenant);
      }
      return tenants;
    },
  });
  process.discover(CLUSTERS);
  for (const tenant of tenants) {
    if (tenant.id === silent) continue;
    tenant.node(gpuNode(N1));
    tenant.listed = true;
  }
  return process;
}

function nodeHours(events: readonly UsageEvent[], id: string): number {
  return events
    .filter(({ metric }) => metric === 'tenant_private_node_hours')
    .filter(({ dimensions }) => dimensions?.['tenant_cluster'] === id)
    .reduce((sum, { quantity }) => sum + Number(quantity), 0);
}

test.each([1, 2, 3, 4, 5, 6, 7, 8])(
  'a kill after turn %i of closing windows leaves no tenant cluster’s nodes unbilled, and none twice',
  async (kills) => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    let slices = 0;
    let kill = (): void => undefined;
    const killing: Ledger = {
      ...ledger,
      append: async (...batch: Parameters<Ledger['append']>) => {
        const outcome = await ledger.append(...batch);
        slices += 1;
        if (slices === kills) kill();
        return outcome;
      },
    };
    const first = await start(clock, killing);
    kill = () => void first.kill();
    await pass(clock, 20 + 60 * MINUTES + 3);
    await first.ended;
    expect(slices).toBe(kills);

    const second = await start(clock, ledger);
    await pass(clock, 60);
    const events = await eventsOf(ledger);
    for (const { id } of CLUSTERS) {
      expect(nodeHours(events, id)).toBeCloseTo((MINUTES + 1) / 60, 7);
    }
    expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
    await second.kill();
  },
);

test('a kill costs a tenant cluster whose API was silent all along nothing, however short windows are', async () => {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const [, , silent] = CLUSTERS;
  const first = await start(clock, ledger, { seconds: 10, silent: silent?.id ?? '', objects: 1 });
  await pass(clock, 20 + 125);
  await first.kill();
  const second = await start(clock, ledger, { seconds: 10, objects: 1 });
  await pass(clock, 58);
  const events = await eventsOf(ledger);
  for (const { id } of CLUSTERS) expect(nodeHours(events, id)).toBeCloseTo(200 / 3600, 6);
  await second.kill();
});
