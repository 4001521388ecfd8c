import { describe, expect, test } from 'vitest';
import { DeviceCatalogue, MOST_SLICES_OF_NODE } from './device-catalogue.ts';
import { AMD, device, NVIDIA, slice, type SliceFixture } from './testing/claims.ts';
import { createWorld, HOUR, START, type World } from './testing/world.ts';

const MINUTE = 60_000;
const at = (minute: number): number => START + minute * MINUTE;

/** A slice of node `n1` with one device, `gpu`, whose product differs by version. */
const version = (productName: string, more: SliceFixture = {}) =>
  slice({ devices: [device('gpu', { type: 'gpu', uuid: productName, productName })], ...more });

/** The version of device `gpu` in pool `n1` at these minutes. */
function found(world: World, minutes: readonly number[], driver = NVIDIA, pool = 'n1') {
  const catalogue = new DeviceCatalogue(world.observation.resourceSlices);
  return minutes.map((minute) => catalogue.find({ driver, pool, device: 'gpu' }, at(minute))?.gpu);
}

/** The GPUs of node `n1` in the hour: from, to in minutes, and their products. */
function published(world: World, drivers: readonly string[] = [NVIDIA], to = START + HOUR) {
  const catalogue = new DeviceCatalogue(world.observation.resourceSlices);
  return catalogue
    .on('n1', drivers, START, to)
    .map(({ from, to, gpus }) => [
      (from - START) / MINUTE,
      (to - START) / MINUTE,
      gpus.map(({ device }) => device.gpu).join(' '),
    ]);
}

const C1 = { name: 'c1', generation: 1 } as const;
const C2 = { name: 'c2', generation: 2, sliceCount: 2 } as const;

describe('a device is billed as another product or part than it was', () => {
  test('while its driver restarts: its last publication counts, before any its first', () => {
    const world = createWorld();
    world.slice(version('A'), at(10));
    world.sliceGone(version('A'), at(20));
    world.slice(version('B'), at(40));
    world.slice(version('C', { generation: 2 }), at(45));
    world.sliceGone(version('C', { generation: 2 }), at(50));
    const minutes = [0, 9, 10, 15, 20, 39, 40, 44, 45, 50, 59];
    expect(found(world, minutes).join('')).toBe('AAAAAABBCCC');
  });

  test('where two slices name it: the newer generation counts, of one generation the later slice', () => {
    const world = createWorld();
    world.slice(version('late', { name: 'a', generation: 1 }), at(20));
    world.slice(version('early', { name: 'b', generation: 1 }), at(10));
    world.slice(version('new', { name: 'c', generation: 2 }), at(5));
    world.sliceGone(version('new', { name: 'c', generation: 2 }), at(30));
    // Before all of them the first one is nearest, after their end the last one.
    expect(found(world, [0, 5, 15, 25, 35])).toStrictEqual(['new', 'new', 'new', 'new', 'late']);
    for (const name of ['a', 'b']) world.sliceGone(version('x', { name }), at(40));
    expect(found(world, [45])).toStrictEqual(['late']);
  });

  test('because another pool or driver has one of its name', () => {
    const world = createWorld();
    world.slice(version('own'), at(10));
    world.slice(version('pool', { name: 'p', pool: 'n2' }), at(11));
    world.slice(version('driver', { name: 'd', driver: AMD }), at(12));
    expect(found(world, [20])).toStrictEqual(['own']);
    expect(found(world, [20], NVIDIA, 'n2')).toStrictEqual(['pool']);
    expect(found(world, [20], AMD)).toStrictEqual(['driver']);
    expect(found(world, [20], AMD, 'n2')).toStrictEqual([undefined]);
  });
});

describe('a node that is billed as a whole has other GPUs than its drivers publish', () => {
  test('of drivers that are not selected, or of times outside', () => {
    const world = createWorld();
    world.slice(version('amd', { name: 'd', driver: AMD }), at(10));
    world.slice(version('later', { name: 'l', pool: 'p', node: 'n1' }), at(60));
    world.slice(version('elsewhere', { name: 'e', pool: 'n2' }), at(10));
    expect(published(world)).toStrictEqual([[0, 60, '']]);
    expect(published(world, [NVIDIA, AMD])).toStrictEqual([
      [0, 10, ''],
      [10, 60, 'amd'],
    ]);
    expect(published(world, [NVIDIA], at(61))).toStrictEqual([
      [0, 60, ''],
      [60, 61, 'later'],
    ]);
  });

  test('while a pool is published again: the old generation counts beside the new until that is complete', () => {
    const world = createWorld();
    world.slice(version('old', C1), at(0));
    world.slice(version('new', C2), at(10));
    world.slice(version('rest', { ...C2, name: 'c3' }), at(20));
    world.sliceGone(version('old', C1), at(30));
    world.sliceGone(version('rest', { ...C2, name: 'c3' }), at(40));
    expect(published(world)).toStrictEqual([
      [0, 10, 'old'],
      [10, 20, 'old new'],
      [20, 30, 'new rest'],
      [30, 40, 'new rest'],
      [40, 60, 'new'],
    ]);
  });

  test('when the newest generation is withdrawn: the one before counts again', () => {
    const world = createWorld();
    world.slice(version('old', C1), at(0));
    const newest = { name: 'c2', generation: 2 };
    world.slice(version('new', newest), at(10));
    world.sliceGone(version('new', newest), at(20));
    world.sliceGone(version('old', C1), at(30));
    world.slice(version('again', { name: 'c4', generation: 1 }), at(40));
    expect(published(world)).toStrictEqual([
      [0, 10, 'old'],
      [10, 20, 'new'],
      [20, 30, 'old'],
      [30, 40, ''],
      [40, 60, 'again'],
    ]);
  });

  test('because one of two slices of the newest generation goes before an older one', () => {
    const world = createWorld();
    for (const name of ['a', 'b']) {
      world.slice(version(name, { name, generation: 2, sliceCount: 2 }), at(0));
    }
    world.slice(version('old', C1), at(10));
    world.sliceGone(version('a', { name: 'a', generation: 2, sliceCount: 2 }), at(20));
    world.sliceGone(version('old', C1), at(30));
    expect(published(world)).toStrictEqual([
      [0, 10, 'a b'],
      [10, 20, 'a b'],
      [20, 30, 'b old'],
      [30, 60, 'b'],
    ]);
  });

  test('in the second of two pools, whose changes are others', () => {
    const world = createWorld();
    world.slice(version('one', { name: 'a', pool: 'p', node: 'n1' }), at(10));
    world.slice(version('two', { name: 'b', pool: 'q', node: 'n1' }), at(20));
    world.slice(version('two!', { name: 'b', pool: 'q', node: 'n1', generation: 2 }), at(30));
    expect(published(world)).toStrictEqual([
      [0, 10, ''],
      [10, 20, 'one'],
      [20, 30, 'one two'],
      [30, 60, 'one two!'],
    ]);
  });

  test('beyond the limit of slices, which the report counts', () => {
    const world = createWorld();
    const count = MOST_SLICES_OF_NODE + 2;
    for (let index = 0; index < count; index += 1) {
      const fixture = { name: `s${index}`, sliceCount: count };
      world.slice(version(`g${index}`, fixture), at(0) + index);
    }
    const catalogue = new DeviceCatalogue(world.observation.resourceSlices);
    const last = catalogue.on('n1', [NVIDIA], START, START + HOUR).at(-1);
    const gpus = last?.gpus.map(({ device: { gpu } }) => gpu);
    expect(gpus).toHaveLength(MOST_SLICES_OF_NODE);
    expect(gpus).not.toContain('g1');
    expect(gpus).toContain('g2');
    expect(catalogue.omitted).toStrictEqual(new Map([['n1', 2]]));
    catalogue.on('n1', [NVIDIA], START, START + 1);
    expect(catalogue.omitted.get('n1')).toBe(2);
  });
});
