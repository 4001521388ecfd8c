import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createManualClock } from '../kubernetes/testing/manual-clock.ts';
import { useLedgers } from '../ledger/testing/use-ledgers.ts';
import { A10G, gpuNode, H100, N1, N2, N4, variant } from '../metering/meters/testing/gpu-nodes.ts';
import { cluster, iso, pod } from '../metering/meters/testing/objects.ts';
import { createWorld, START, type World } from '../metering/meters/testing/world.ts';
import { shareRows } from '../metering/windows/gpu-history/share-rows.ts';
import { gpuShare, gpuWriter } from './testing/gpus.ts';
import { API_TOKEN, NOW, startTestServer, type TestServer } from './testing/test-server.ts';

const used = useLedgers();
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const token = API_TOKEN;

interface Row {
  readonly tenant?: string;
  readonly gpu_type?: string;
  readonly window?: string;
  readonly delivered: number;
  readonly healthy: number;
  readonly reserved: number;
  readonly in_use: number;
  readonly idle: number;
  readonly installed?: number;
  readonly utilization: number | 'unknown';
  readonly utilization_hours: number;
}

interface Gpus {
  readonly measured_since?: string;
  readonly note?: string;
  readonly totals: readonly Row[];
  readonly rows: readonly Row[];
}

async function getGpus(server: TestServer, query: string, status = 200): Promise<Gpus> {
  const answer = await server.call('GET', `/api/v1/gpus?${query}`, { token });
  expect(answer.status, answer.text).toBe(status);
  return answer.json as Gpus;
}

const second = fc.integer({ min: 0, max: 240 });
const fleet = fc.record({
  nodes: fc.array(
    fc.record({
      shape: fc.constantFrom(N1, N2, N4),
      dedicated: fc.boolean(),
      downFrom: fc.option(second),
      missing: fc.boolean(),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  pods: fc.array(
    fc.record({
      node: fc.nat(2),
      tenant: fc.constantFrom('a', 'b'),
      devices: fc.integer({ min: 1, max: 5 }),
      from: second,
      life: fc.integer({ min: 1, max: 200 }),
    }),
    { maxLength: 6 },
  ),
});

/** The resource that each of the shapes offers. */
const RESOURCES = new Map<unknown, string>([
  [N1, 'nvidia.com/gpu'],
  [N2, 'nvidia.com/gpu'],
  [N4, 'nvidia.com/mig-1g.10gb'],
]);

const at = (seconds: number): number => START + seconds * 1000;

/** Tells what happens up to a moment, in order. */
function reported({ nodes, pods }: typeof fleet extends fc.Arbitrary<infer T> ? T : never) {
  const events: { readonly at: number; readonly observe: (world: World) => void }[] = [];
  for (const [index, { shape, dedicated, downFrom, missing }] of nodes.entries()) {
    const labels: Record<string, string> = dedicated
      ? { 'vcluster.loft.sh/managed-by': 'tenant-a' }
      : {};
    const resource = RESOURCES.get(shape) ?? '';
    const allocatable = missing ? { [resource]: '3' } : {};
    const up = variant(shape, { name: `n${index}`, labels, allocatable });
    events.push({ at: at(-60), observe: (world) => world.node(gpuNode(up), at(-60)) });
    if (downFrom === null) continue;
    const taint = { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' };
    const taints = [{ ...taint, timeAdded: iso(at(downFrom)) }];
    const down = gpuNode(variant(up, { taints }));
    events.push({ at: at(downFrom), observe: (world) => world.node(down, at(downFrom)) });
  }
  for (const [index, { node, tenant, devices, from, life }] of pods.entries()) {
    const fixture = {
      name: `p${index}`,
      namespace: `tenant-${tenant}`,
      node: `n${node}`,
      labels: { 'vcluster.loft.sh/managed-by': tenant },
      containers: [{ [RESOURCES.get(nodes[node]?.shape) ?? 'nvidia.com/gpu']: devices }],
      createdAt: at(from),
      startedAt: at(from),
    };
    const ended = { ...fixture, phase: 'Succeeded', finishedAt: at(from + life) };
    events.push({ at: at(from), observe: (world) => world.pod(pod(fixture), at(from)) });
    events.push({
      at: at(from + life),
      observe: (world) => world.pod(pod(ended), at(from + life)),
    });
  }
  return events.toSorted((a, b) => a.at - b.at);
}

test('in every window of any fleet what tenants and nobody have comes to what is installed', async () => {
  await fc.assert(
    fc.asyncProperty(fleet, async (generated) => {
      const ledger = await used.open(await used.directory());
      const write = gpuWriter(ledger, createManualClock(at(300)));
      const world = createWorld();
      world.clusters([cluster('a'), cluster('b', {}, { namespace: 'tenant-b' })]);
      const happenings = reported(generated);
      for (let start = START; start < at(300); start += MINUTE) {
        while ((happenings[0]?.at ?? Infinity) <= start + MINUTE)
          happenings.shift()?.observe(world);
        const { diagnostics } = world.close(start, start + MINUTE);
        await write.shares(start, shareRows([diagnostics]));
      }
      await using server = await startTestServer({ ledger });
      const range = `from=${new Date(START).toISOString()}&to=${new Date(at(300)).toISOString()}`;
      const byTenant = await getGpus(server, `${range}&group_by=window,gpu_type,tenant`);
      const complete = await getGpus(server, `${range}&group_by=window,gpu_type`);
      expect(new Set(complete.rows.map(({ window }) => window)).size).toBe(5);
      for (const { window, gpu_type: model, delivered, healthy, installed } of complete.rows) {
        expect(delivered).toBe(installed);
        const own = byTenant.rows.filter((row) => row.window === window && row.gpu_type === model);
        const rounding = own.length * 0.5e-9 + 1e-12;
        const sum = (of: (row: Row) => number): number =>
          own.reduce((total, row) => total + of(row), 0);
        expect(Math.abs(sum((row) => row.delivered) - delivered)).toBeLessThanOrEqual(rounding);
        expect(Math.abs(sum((row) => row.healthy) - healthy)).toBeLessThanOrEqual(rounding);
        for (const row of own) {
          expect(row.in_use).toBeLessThanOrEqual(row.healthy);
          expect(row.healthy).toBeLessThanOrEqual(row.delivered);
        }
      }
      for (const total of complete.totals) expect(total.delivered).toBe(total.installed);
      await ledger.close();
    }),
    { numRuns: 25 },
  );
}, 120_000);

/**
 * A day and an hour: `acme` has a node of eight, of which one is missing and three are held;
 * `globex` two of eight others.
 */
async function twoTenants(): Promise<TestServer> {
  const ledger = await used.open(await used.directory());
  const write = gpuWriter(ledger);
  const noon = Date.parse('2026-11-20T08:00:00Z');
  for (let hour = 0; hour < 25; hour += 1) {
    await write.shares(noon + hour * HOUR, [
      gpuShare('acme', H100, [8, 7, 8, 3]),
      gpuShare('globex', H100, [2, 2, 2, 2]),
      gpuShare(undefined, H100, [6, 6, 0, 1, 16]),
      gpuShare('globex', A10G, [1, 1, 1, 1]),
      gpuShare(undefined, A10G, [0, 0, 0, 0, 1]),
    ]);
  }
  // One GPU that was idle all the time, and three that were half busy: 37.5 % of four.
  await write.busy(noon + HOUR, 'acme', H100, 0);
  await write.busy(noon + HOUR, 'acme', H100, 50, 3);
  await write.busy(noon + HOUR, 'globex', H100, 0, 2);
  return startTestServer({ ledger });
}

const DAY = 'from=2026-11-20T08:00:00Z&to=2026-11-21T09:00:00Z';

test('a GPU that was measured as idle is 0 percent, and one that nobody measured is unknown', async () => {
  await using server = await twoTenants();
  const { rows, totals, measured_since: since, note } = await getGpus(server, DAY);
  expect(rows).toEqual([
    {
      tenant: 'acme',
      gpu_type: H100,
      delivered: 200,
      healthy: 175,
      reserved: 200,
      in_use: 75,
      idle: 100,
      utilization: 37.5,
      utilization_hours: 0.066666667,
    },
    {
      tenant: 'globex',
      gpu_type: A10G,
      delivered: 25,
      healthy: 25,
      reserved: 25,
      in_use: 25,
      idle: 0,
      utilization: 'unknown',
      utilization_hours: 0,
    },
    {
      tenant: 'globex',
      gpu_type: H100,
      delivered: 50,
      healthy: 50,
      reserved: 50,
      in_use: 50,
      idle: 0,
      utilization: 0,
      utilization_hours: 0.033333333,
    },
    {
      tenant: 'unassigned',
      gpu_type: H100,
      delivered: 150,
      healthy: 150,
      reserved: 0,
      in_use: 25,
      idle: 125,
      utilization: 'unknown',
      utilization_hours: 0,
    },
  ]);
  expect(totals).toMatchObject([
    { gpu_type: A10G, delivered: 25, installed: 25, utilization: 'unknown' },
    { gpu_type: H100, delivered: 400, healthy: 375, installed: 400, utilization: 25 },
  ]);
  expect(since).toBe('2026-11-20T08:00:00Z');
  expect(note).toBeUndefined();
});

test('filters and keys choose rows, and what is installed is shown for everybody only', async () => {
  await using server = await twoTenants();
  expect((await getGpus(server, `${DAY}&tenant=globex&group_by=gpu_type`)).rows).toMatchObject([
    { gpu_type: A10G, delivered: 25 },
    { gpu_type: H100, delivered: 50 },
  ]);
  const one = await getGpus(server, `${DAY}&tenant=globex&gpu_type=${A10G}&group_by=day,tenant`);
  expect(one.rows).toMatchObject([
    { day: '2026-11-20', tenant: 'globex', delivered: 16 },
    { day: '2026-11-21', tenant: 'globex', delivered: 9 },
  ]);
  for (const row of [...one.rows, ...one.totals]) expect(row).not.toHaveProperty('installed');
  const hourly = await getGpus(server, `${DAY}&group_by=hour`);
  expect(hourly.rows).toHaveLength(25);
  expect(hourly.rows[0]).toMatchObject({ hour: '2026-11-20T08:00Z', installed: 17 });
  const nobody = await getGpus(server, `${DAY}&tenant=unassigned`);
  expect(nobody.rows).toMatchObject([{ tenant: 'unassigned', delivered: 150 }]);
});

test('CSV and NDJSON have the rows of the JSON, unknown where it is unknown', async () => {
  await using server = await twoTenants();
  const csv = await server.call('GET', `/api/v1/gpus?${DAY}&format=csv`, { token });
  expect(csv.headers.get('content-disposition')).toContain('gpus_2026-11-20_2026-11-21.csv');
  expect(csv.text.split('\r\n').slice(0, 3)).toEqual([
    'tenant,gpu_type,delivered,healthy,reserved,in_use,idle,utilization,utilization_hours',
    `acme,${H100},200,175,200,75,100,37.5,0.066666667`,
    `globex,${A10G},25,25,25,25,0,unknown,0`,
  ]);
  const lines = await server.call('GET', `/api/v1/gpus?${DAY}&format=ndjson`, { token });
  const rows = lines.text.trimEnd().split('\n');
  expect(rows.map((line): unknown => JSON.parse(line))).toEqual((await getGpus(server, DAY)).rows);
  const models = await server.call('GET', `/api/v1/gpus?${DAY}&group_by=gpu_type&format=csv`, {
    token,
  });
  expect(models.text).toContain('idle,installed,utilization');
});

test('a misspelled key, a long range by window and a stranger are refused', async () => {
  await using server = await twoTenants();
  await getGpus(server, 'group_by=model', 400);
  await getGpus(server, 'group_by=window&from=2026-11-01&to=2026-11-21', 400);
  await getGpus(server, 'model=x', 400);
  expect((await server.call('GET', '/api/v1/gpus')).status).toBe(401);
});

test('a range that reaches further back than is kept says so, and so does the part of an hour whose windows are gone', async () => {
  const ledger = await used.open(await used.directory());
  const write = gpuWriter(ledger);
  const old = Date.parse('2026-11-18T08:00:00Z');
  await write.shares(old + 10 * MINUTE, [gpuShare('acme', H100, [1, 1, 1, 1])]);
  await write.shares(NOW - 2 * HOUR, [gpuShare('acme', H100, [1, 1, 1, 1])]);
  await using server = await startTestServer({ ledger });
  const complete = await getGpus(server, 'from=2026-11-18T08:00:00Z&to=2026-11-18T09:00:00Z');
  expect(complete.rows).toMatchObject([{ tenant: 'acme', delivered: 1 }]);
  expect(complete.note).toBeUndefined();
  const part = await getGpus(server, 'from=2026-11-18T08:05:00Z&to=2026-11-18T08:30:00Z');
  expect(part.rows).toEqual([]);
  expect(part.note).toContain('no longer kept');
  const longAgo = await getGpus(server, 'from=2025-01-01&to=2025-01-02');
  expect(longAgo.note).toContain('no longer kept');
});
