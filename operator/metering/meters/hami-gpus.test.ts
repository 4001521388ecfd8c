import { describe, expect, test } from 'vitest';
import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { projectNode } from '../timelines/node.ts';
import { projectPod } from '../timelines/pod.ts';
import { hamiGpus } from './hami-gpus.ts';
import { attributesOf, DOWN, GPU } from './testing/claim-scene.ts';
import { gpuNode, H100, variant } from './testing/gpu-nodes.ts';
import { EIGHT, HAMI, hamiGiven, hamiNode, MIB, registered } from './testing/hami.ts';
import { cluster, type PodFixture } from './testing/objects.ts';
import { createWorld, HOUR, START, total, type World } from './testing/world.ts';

const GIVEN = 'nvidia.com/gpu';
const QUARTER = MIB / 4;

interface Scene {
  readonly node?: RawObject;
  readonly given?: string;
  readonly containers?: PodFixture['containers'];
  readonly init?: readonly RawObject[];
}

function worldOf({ node = hamiNode(), given, containers, init }: Scene): World {
  const world = createWorld();
  world.clusters([cluster('a')]);
  world.node(node);
  const requested = containers ?? [{ [GIVEN]: 1, 'nvidia.com/gpumem': QUARTER }];
  const more = init === undefined ? {} : { initContainers: init };
  world.pod(hamiGiven(given, { containers: requested, ...more }));
  return world;
}

const hourOf = (scene: Scene) => worldOf(scene).close(START, START + HOUR);
const share = (uuid: string, memory: number, cores: number) => `${uuid},NVIDIA,${memory},${cores}:`;

describe('GPUs that HAMi shares', () => {
  test('G41: a quarter of a GPU’s memory is a quarter of a GPU', () => {
    const containers = [{ [GIVEN]: 1, 'nvidia.com/gpumem': QUARTER, 'nvidia.com/gpucores': 30 }];
    const { events, diagnostics, explanations } = hourOf({
      given: `${share('GPU-3', QUARTER, 30)};`,
      containers,
    });
    const shared = ['0.25', `${H100}-hami`, H100, 'hami', 'on-demand', 'shared'];
    expect(attributesOf(events)).toEqual(shared);
    const event = events.find(({ metric }) => metric === GPU);
    expect(event?.properties).toMatchObject({ gpu_devices: 1, gpu_cores_pct: 30, pods: 1 });
    const [reported] = explanations.flatMap(({ subjects }) =>
      subjects.flatMap(({ gpus }) => gpus ?? []),
    );
    expect(reported?.sharedBy).toContain(
      `${QUARTER} of ${MIB} MiB and 30 of 100 % of the cores of GPU-3`,
    );
    const [balance] = diagnostics.gpuBalances;
    const hours = (amount = 0n): number =>
      Number((amount * 100n) / UNITS_PER_GPU / BigInt(HOUR)) / 100;
    expect([hours(balance?.installed), hours(balance?.billed), hours(balance?.idle)]).toEqual([
      8, 0.25, 7.75,
    ]);
    expect(balance?.unaccounted).toBe(0n);
  });

  const one = { [GIVEN]: 1 };
  const quarter = { ...one, 'nvidia.com/gpumem': QUARTER };
  const table: [string, Scene, number][] = [
    [
      'G42: of its cores, where memory is not limited',
      { given: `${share('GPU-0', MIB, 30)};`, containers: [{ ...one, 'nvidia.com/gpucores': 30 }] },
      0.3,
    ],
    [
      'G42: likewise where the annotation names no memory',
      { given: `${share('GPU-0', 0, 30)};`, containers: [{ ...one, 'nvidia.com/gpucores': 30 }] },
      0.3,
    ],
    ['G43: without any limit', { given: `${share('GPU-0', MIB, 0)};`, containers: [one] }, 1],
    [
      'G44: devices and containers add up',
      {
        given: `${share('GPU-0', QUARTER, 0)}${share('GPU-1', QUARTER, 0)};${share('GPU-0', MIB / 2, 0)};`,
        containers: [
          { [GIVEN]: 2, 'nvidia.com/gpumem': QUARTER },
          { ...one, 'nvidia.com/gpumem': MIB / 2 },
        ],
      },
      1,
    ],
    [
      'G44: a device counts once, however often it is given',
      {
        given: `${share('GPU-0', MIB / 2, 0)};${share('GPU-0', (MIB * 3) / 4, 0)};`,
        containers: [{}],
      },
      1,
    ],
    [
      'G45: an init container has its share before the others',
      {
        given: `${share('GPU-0', MIB / 2, 0)};${share('GPU-0', QUARTER, 0)};`,
        containers: [quarter],
        init: [{ resources: { requests: { ...one, 'nvidia.com/gpumem': MIB / 2 } } }],
      },
      0.5,
    ],
    ...[
      [MIB / 2, QUARTER],
      [QUARTER, MIB / 2],
    ].map(([before, then]): [string, Scene, number] => [
      `G45: whichever of both was given more: ${before} MiB, then ${then}`,
      {
        given: `${share('GPU-0', before ?? 0, 0)};${share('GPU-0', then ?? 0, 0)};`,
        containers: [{ ...one, 'nvidia.com/gpumem': 1 }],
        init: [{ resources: { requests: { ...one, 'nvidia.com/gpumem': 1 } } }],
      },
      0.5,
    ]),
    [
      'G45: a sidecar beside them',
      {
        given: `${share('GPU-0', MIB / 2, 0)};${share('GPU-0', QUARTER, 0)};`,
        containers: [quarter],
        init: [
          {
            restartPolicy: 'Always',
            resources: { requests: { ...one, 'nvidia.com/gpumem': MIB / 2 } },
          },
        ],
      },
      0.75,
    ],
    [
      'G46: an annotation with less than the resources request',
      { given: `${share('GPU-0', 1, 1)};` },
      0.25,
    ],
    ['G46: none at all', {}, 0.25],
    [
      'G46: percent of the memory',
      {
        given: `${share('GPU-0', 1, 1)};`,
        containers: [{ ...one, 'nvidia.com/gpumem-percentage': 40 }],
      },
      0.4,
    ],
    [
      'G46: a full device that is requested',
      { given: `${share('GPU-0', 1, 1)};`, containers: [one] },
      1,
    ],
    ['G47: a device that the node does not have', { given: `${share('GPU-99', 1, 1)};` }, 0.25],
    ['G47: text that says nothing', { given: 'GPU-0;;,:,,::x' }, 0.25],
    [
      'G48: the node as text',
      {
        node: hamiNode(
          `GPU-0,10,${MIB},100,NVIDIA-NVIDIA H100 80GB HBM3,0,true:GPU-1,10,${MIB},100,NVIDIA-NVIDIA H100 80GB HBM3,1,true,1,hami-core:`,
        ),
        given: `${share('GPU-1', QUARTER, 0)};`,
      },
      0.25,
    ],
    [
      'G49: nobody is given a device whose cores are all taken',
      {
        given: `${share('GPU-0', QUARTER, 100)};`,
        containers: [{ ...quarter, 'nvidia.com/gpucores': 100 }],
      },
      1,
    ],
    ['G49: a MIG instance of it', { given: `${share('GPU-0[0-1]', QUARTER, 0)};` }, 0.25],
  ];
  test.each(table)('%s', (_name, scene, want) => {
    const { events, diagnostics } = hourOf(scene);
    expect(total(events, GPU, { gpu_profile: 'hami' })).toBe(want);
    for (const { unaccounted } of diagnostics.gpuBalances) expect(unaccounted).toBe(0n);
  });

  test('G50: what is installed are the physical GPUs, and what is unhealthy is missing', () => {
    const unhealthy = EIGHT.with(7, registered(7, { health: undefined }));
    const labels = { 'vcluster.loft.sh/managed-by': 'tenant-a' };
    const hour = (devices: readonly RawObject[], fixture = variant(HAMI, { labels })) => {
      const world = createWorld();
      world.clusters([cluster('a')]);
      world.node(hamiNode(devices, fixture));
      const { events } = world.close(START, START + HOUR);
      return [total(events, GPU), total(events, DOWN)];
    };
    expect(hour(EIGHT)).toEqual([8, 0]);
    expect(hour(unhealthy)).toEqual([7, 1]);
    const dead = variant(HAMI, { labels, allocatable: { [GIVEN]: '0' } });
    expect(hour(EIGHT, dead)).toEqual([0, 8]);
    // A GPU that has fallen off the bus is counted by its label.
    expect(hour(EIGHT.slice(0, 7))).toEqual([7, 1]);
  });

  test('G51: an annotation that is rewritten while the pod runs lowers nothing', () => {
    const containers = [{ [GIVEN]: 1, 'nvidia.com/gpucores': 1 }];
    const world = worldOf({ given: `${share('GPU-0', MIB / 2, 60)};`, containers });
    world.pod(hamiGiven(`${share('GPU-0', 1, 1)};`, { containers }), START + HOUR / 2);
    world.pod(hamiGiven(undefined, { containers }), START + (HOUR * 3) / 4);
    expect(total(world.close(START, START + HOUR).events, GPU)).toBe(0.5);
  });

  test('where no label names a model it is the one that HAMi registers', () => {
    const node = hamiNode(EIGHT, { name: 'n1', capacity: { [GIVEN]: '80' } });
    const { events } = hourOf({ node, given: `${share('GPU-0', QUARTER, 0)};` });
    expect(attributesOf(events).slice(0, 3)).toEqual(['0.25', `${H100}-hami`, H100]);
  });

  test('where the node registers nothing the annotation means nothing', () => {
    const containers = [{ [GIVEN]: 1 }];
    const given = `${share('GPU-0', 1, 1)};`;
    expect(attributesOf(hourOf({ node: gpuNode(HAMI), given, containers }).events)).toEqual([
      '1',
      H100,
      H100,
      'full',
      'on-demand',
      'shared',
    ]);
  });

  test.each<[string, PodFixture['containers'], number]>([
    [
      'one device counts as the resources request',
      [{ [GIVEN]: 1, 'nvidia.com/gpumem': QUARTER }],
      0.25,
    ],
    ['percent of its memory', [{ [GIVEN]: 1, 'nvidia.com/gpumem-percentage': 50 }], 0.5],
    ['several are whole ones', [{ [GIVEN]: 2, 'nvidia.com/gpumem': QUARTER }], 2],
    ['none holds nothing', [{ cpu: '1' }], 0],
  ])('of a pod out of an earlier release’s journal %s', (_name, containers = [], want) => {
    const world = worldOf({ containers });
    const { nodes, pods } = world.observation;
    const [stored] = pods.unwritten
      .drain()
      .changed.flatMap(({ spans }) => spans.map(({ state }) => state));
    const [node] = nodes.unwritten
      .drain()
      .changed.flatMap(({ spans }) => spans.map(({ state }) => state));
    if (stored === undefined || node?.hami === undefined) throw new Error('no pod or node');
    const { gpuShares: _unknown, ...earlier } = stored;
    const held = hamiGpus(earlier, node.hami, 'equivalents');
    const units = held.reduce((sum, one) => sum + one.units, 0n);
    expect(Number(units) / Number(UNITS_PER_GPU)).toBe(want);
  });

  test('of many devices the explanation names the first, and how many more there are', () => {
    const shares = EIGHT.slice(0, 6).map((_, index) => share(`GPU-${index}`, QUARTER, 0));
    const containers = [{ [GIVEN]: 6, 'nvidia.com/gpumem': QUARTER }];
    const { explanations } = hourOf({ given: `${shares.join('')};`, containers });
    const sharedBy = explanations.flatMap(({ subjects }) =>
      subjects.flatMap(({ gpus }) => gpus?.sharedBy ?? []),
    );
    expect(sharedBy.map((text) => text.match(/GPU-\d|\d more/gu))).toEqual([
      ['GPU-0', 'GPU-1', 'GPU-2', 'GPU-3', '2 more'],
    ]);
  });

  test('counted as devices a share is one', () => {
    const world = worldOf({ given: `${share('GPU-0', QUARTER, 0)};` });
    world.clusters([cluster('a', { gpuQuantity: 'devices' })]);
    expect(total(world.close(START, START + HOUR).events, GPU)).toBe(1);
  });
});

test('an annotation of 256 KiB is not read, and costs next to nothing', () => {
  const began = performance.now();
  const huge = 'GPU-0,NVIDIA,1,1:;'.repeat(15_000);
  const view = projectPod(hamiGiven(huge, { containers: [{ [GIVEN]: 1 }] }));
  expect(view).toBeDefined();
  expect(view?.gpuShares).toBeUndefined();
  expect(projectNode(hamiNode(`[${JSON.stringify(EIGHT)},`.repeat(4_000)))?.hami).toBeUndefined();
  expect(projectNode(hamiNode('[{"id":'.repeat(9_000)))?.hami).toBeUndefined();
  const many = 'x,NVIDIA,1,1:'.repeat(1_200);
  const kept = projectPod(hamiGiven(many, { containers: [{ [GIVEN]: 1 }] }))?.gpuShares?.hami
    ?.given;
  expect(kept?.length).toBeLessThanOrEqual(128);
  expect(performance.now() - began).toBeLessThan(1_000);
});
