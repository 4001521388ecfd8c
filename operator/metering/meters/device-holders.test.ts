import { expect, test } from 'vitest';
import type { AllocatedDevice } from '../timelines/resource-claim.ts';
import { holdersAt, holdersByDevice, holdersWithin, sameHolders } from './device-holders.ts';

/** A share of device `gpu-0` that consumes this much memory. */
const shareOf = (share: string, memory?: bigint, more: Partial<AllocatedDevice> = {}) => ({
  driver: 'gpu.nvidia.com',
  pool: 'n1',
  device: 'gpu-0',
  share,
  ...(memory !== undefined && { consumed: new Map([['memory', memory]]) }),
  ...more,
});

const spanOf = (from: number, to: number, ...devices: readonly AllocatedDevice[]) => ({
  from,
  to,
  state: { allocation: { devices } },
});

test('a device is split among claims that have it at another time, or another device', () => {
  const [a, b] = [shareOf('a'), shareOf('b')];
  const { share: _, ...alone } = shareOf('alone');
  const others = ['driver', 'pool', 'device'].map((key) =>
    shareOf('other', 1n, { [key]: 'other' }),
  );
  const holdings = holdersByDevice([
    spanOf(10, 40, a, ...others),
    spanOf(20, 30, b),
    spanOf(0, 100, alone),
  ]);
  const within = (from: number, to: number) =>
    holdersWithin(holdings, a, from, to).map((one) => [one.from, one.to, one.holders.length]);
  expect(within(0, 100)).toStrictEqual([
    [10, 20, 1],
    [20, 30, 2],
    [30, 40, 1],
  ]);
  expect(within(20, 30)).toStrictEqual([[20, 30, 2]]);
  expect(within(19, 31)).toHaveLength(3);
  expect(within(0, 10)).toStrictEqual([]);
  expect(within(40, 50)).toStrictEqual([]);
  const all = holdersWithin(holdings, a, 0, 100);
  const at = [9, 10, 19, 20, 29, 30, 39, 40].map((moment) => holdersAt(all, moment));
  expect(at).toStrictEqual([[], [a], [a], [a, b], [a, b], [a], [a], []]);
  expect(holdersWithin(holdings, alone, 0, 100)).toStrictEqual([]);
  expect(holdersWithin(holdings, shareOf('x', 1n, { device: 'gpu-9' }), 0, 100)).toStrictEqual([]);
});

test('a claim is billed again though its device is split as before, or not though it is split otherwise', () => {
  const holders = [shareOf('a', 1n), shareOf('b', 2n)];
  expect(sameHolders(holders, holders)).toBe(true);
  expect(sameHolders(holders, [shareOf('c', 1n), shareOf('d', 2n)])).toBe(true);
  expect(sameHolders(holders, [shareOf('a', 1n), shareOf('b', 3n)])).toBe(false);
  expect(sameHolders(holders, [shareOf('a', 1n)])).toBe(false);
  expect(sameHolders([shareOf('a')], [shareOf('b')])).toBe(true);
  expect(sameHolders([shareOf('a')], [shareOf('b', 1n)])).toBe(false);
  const shares = { consumed: new Map([['shares', 1n]]) };
  expect(sameHolders([shareOf('a', 1n)], [shareOf('a', 1n, shares)])).toBe(false);
});
