import { expect, test } from 'vitest';
import { HOUR, START } from './testing/times.ts';
import { draWorld } from './testing/claim-scene.ts';
import { device, slice } from './testing/claims.ts';

const SLICES = 8_000;

test('8,000 resource slices of one node that come one after the other delay no window', () => {
  const world = draWorld({ slices: [] });
  for (let index = 0; index < SLICES; index++) {
    const uuid = `GPU-${index}`;
    const devices = [device('gpu', { type: 'gpu', uuid, productName: `H${index}` })];
    const at = START + index * 400;
    const fixture = { name: `s${index}`, pool: `p${index % 2}`, node: 'n1', generation: index };
    world.slice(slice({ ...fixture, devices, sliceCount: SLICES }), at);
  }
  const begun = performance.now();
  const { diagnostics } = world.close(START, START + HOUR);
  const ms = performance.now() - begun;
  expect(diagnostics.omittedSlices.get('n1')).toBe(SLICES - 256);
  expect(ms).toBeLessThan(5_000);
});

test('slices full of devices that come one after the other are left out sooner', () => {
  const world = draWorld({ slices: [] });
  const full = 200;
  for (let index = 0; index < full; index++) {
    const devices = Array.from({ length: 128 }, (_, number) => {
      const uuid = `GPU-${index % 4}-${number}`;
      return device(`gpu-${number}`, { type: 'gpu', uuid, productName: 'H100' });
    });
    const fixture = { name: `s${index}`, pool: 'p', node: 'n1', generation: 1 };
    world.slice(slice({ ...fixture, devices, sliceCount: full }), START + index * 400);
  }
  const { diagnostics } = world.close(START, START + HOUR);
  // 88 of them are read: 88 times 128 devices for each of 176 changes are just below two million.
  expect(diagnostics.omittedSlices.get('n1')).toBe(full - 88);
});
