import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import { resourceClaim, result, slice, fullGpu } from './testing/claims.ts';
import { gpuNode, H100, N1 } from './testing/gpu-nodes.ts';
import { cluster, pod } from './testing/objects.ts';
import { createWorld, START, type World } from './testing/world.ts';

const WINDOW = 60_000;
const WINDOWS = 6;
const NANOS = 1_000_000_000n;

/** Seconds after the first window's start. */
interface Run {
  readonly start: number;
  readonly end: number;
  /** Delay with which start and end arrive, seconds. */
  readonly startDelay: number;
  readonly endDelay: number;
}

interface Claim {
  /** A device of its own, or a share of the device that all such claims share. */
  readonly shares: boolean;
  /** GiB of 80, and shares of four, that it consumes. */
  readonly memory: number;
  readonly parts: number;
  readonly runs: readonly Run[];
  /** How long after its last pod's end the claim is deallocated, seconds. */
  readonly release: number;
}

const run: fc.Arbitrary<Run> = fc
  .record({
    start: fc.integer({ min: 3, max: 200 }),
    length: fc.integer({ min: 1, max: 120 }),
    startDelay: fc.integer({ min: 0, max: 5 }),
    endDelay: fc.integer({ min: 0, max: 30 }),
  })
  .map(({ length, ...rest }) => ({ ...rest, end: rest.start + length }));
const claim: fc.Arbitrary<Claim> = fc.record({
  shares: fc.boolean(),
  memory: fc.constantFrom(0, 0, 7, 20, 80),
  parts: fc.integer({ min: 0, max: 4 }),
  runs: fc.array(run, { minLength: 1, maxLength: 3 }),
  release: fc.integer({ min: 0, max: 10 }),
});

const at = (second: number): number => START + second * 1000;

interface Happening {
  readonly second: number;
  readonly report: (world: World, at: number) => void;
}

/** A claim from its allocation to its release, with its pods, as their events arrive. */
function happeningsOf(
  { shares, memory, parts, runs, release }: Claim,
  index: number,
): readonly Happening[] {
  const name = `c${index}`;
  const pods = runs.map((_, number) => `${name}-${number}`);
  const device = shares
    ? result('gpu-shared', {
        shareID: `share-${index}`,
        consumedCapacity: { memory: `${memory}Gi`, shares: `${parts}` },
      })
    : result(`gpu-${index}`);
  const allocated = resourceClaim({ name, pods, devices: [device] });
  const arrivals = runs.map(({ end, endDelay }) => end + endDelay);
  return [
    {
      second: Math.min(...runs.map(({ start }) => start)),
      report: (world, now) => world.resourceClaim(allocated, now),
    },
    {
      second: Math.max(...arrivals) + release,
      report: (world, now) => world.resourceClaimGone(resourceClaim({ name, devices: null }), now),
    },
    ...runs.flatMap(({ start, end, startDelay, endDelay }, number) => {
      const life = { name: `${name}-${number}`, node: 'n1', createdAt: at(start) };
      const running = pod({ ...life, startedAt: at(start) });
      const ended = { startedAt: at(start), finishedAt: at(end), phase: 'Succeeded' };
      return [
        {
          second: Math.min(start + startDelay, end),
          report: (world: World, now: number) => world.pod(running, now),
        },
        {
          second: end + endDelay,
          report: (world: World, now: number) => world.pod(pod({ ...life, ...ended }), now),
        },
      ];
    }),
  ];
}

/** Seconds during which any of the runs goes on. */
function unionOf(runs: readonly Run[]): number {
  let seconds = 0;
  let reached = -Infinity;
  for (const { start, end } of runs.toSorted((a, b) => a.start - b.start)) {
    seconds += Math.max(0, end - Math.max(start, reached));
    reached = Math.max(reached, end);
  }
  return seconds;
}

function play(claims: readonly Claim[]) {
  const world = createWorld({ windowMs: WINDOW });
  world.clusters([cluster('a')]);
  world.node(gpuNode({ ...N1, capacity: {} }));
  const capacity = { memory: { value: '80Gi' }, shares: { value: '4' } };
  const shared = {
    ...fullGpu(99),
    name: 'gpu-shared',
    allowMultipleAllocations: true,
    capacity,
  };
  const complete = Array.from({ length: 7 }, (_, index) => fullGpu(index));
  world.slice(slice({ devices: [...complete, shared] }));
  const happenings = claims.flatMap(happeningsOf).toSorted((a, b) => a.second - b.second);
  const closed = [];
  for (let index = 0; index < WINDOWS; index += 1) {
    const settled = (index + 1) * 60 + 3;
    for (const { second, report } of happenings) {
      if (second < settled && second >= settled - 60) report(world, at(second));
    }
    closed.push(world.close(START + index * WINDOW, START + (index + 1) * WINDOW));
  }
  const reversed = world.reversals.reduce((sum, { amount }) => sum + amount, 0n);
  return { closed, reversed };
}

test('every second that pods ran is billed once, whatever arrived late', () => {
  fc.assert(
    fc.property(fc.array(claim, { minLength: 1, maxLength: 4 }), (claims) => {
      const exclusive = claims.map((one) => ({ ...one, shares: false }));
      const { closed, reversed } = play(exclusive);
      // What no later charge could absorb waits as a reversal.
      const billed = closed
        .map(({ amounts }) => amounts.get('tenant_gpu_hours') ?? 0n)
        .reduce((sum, amount) => sum + amount, reversed);
      const seconds = exclusive.reduce((sum, { runs }) => sum + unionOf(runs), 0);
      expect(billed).toBe(BigInt(seconds * 1000) * UNITS_PER_GPU * NANOS);
    }),
    { numRuns: 150 },
  );
});

test('what is billed never exceeds what is installed, shares included, and all of it is accounted for', () => {
  fc.assert(
    fc.property(fc.array(claim, { minLength: 1, maxLength: 6 }), (claims) => {
      for (const { diagnostics } of play(claims).closed) {
        for (const balance of diagnostics.gpuBalances) {
          expect(balance.type).toBe(H100);
          expect(balance.installed).toBe(8n * UNITS_PER_GPU * BigInt(WINDOW));
          expect(balance.billed).toBeLessThanOrEqual(balance.installed);
          expect(balance.unaccounted).toBe(0n);
          expect(balance.idle).toBeGreaterThanOrEqual(0n);
          expect(balance.billed + balance.idle).toBe(balance.installed);
        }
      }
    }),
    { numRuns: 100 },
  );
});
