import { expect, test, vi } from 'vitest';
import type { ManualClock } from '../kubernetes/testing/manual-clock.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { cluster, iso, pod } from '../metering/testing/objects.ts';
import { cpu, START } from '../metering/testing/world.ts';
import { Turn } from '../telemetry/turn.ts';
import { clockAt, eventsOf, pass, settingsOf, startProcess } from './testing/harness.ts';

const PODS = 200;
const WINDOW_S = 60;
const podOf = (index: number, finishedAt?: number) =>
  pod({
    name: `p${index}`,
    containers: [{ cpu: '1', memory: '1Gi' }],
    ...(finishedAt !== undefined && { phase: 'Succeeded', finishedAt }),
  });

/** Each look at the time takes a millisecond, so that the pods of a window take several turns. */
function slowly(clock: ManualClock): void {
  const begun = clock.now() - clock.monotonic();
  let worked = 0;
  vi.spyOn(clock, 'monotonic').mockImplementation(() => {
    worked += 1;
    return clock.now() - begun + worked;
  });
}

test('what makes measuring before a window is closed throw costs nobody the window', async () => {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const process = await startProcess({ clock, ledger, objects: { pods: [podOf(0)] } });
  process.discover([cluster('a')]);
  const looks = vi.spyOn(process.observation.nodes, 'inNamespace').mockImplementationOnce(() => {
    throw new RangeError('Maximum call stack size exceeded');
  });
  await pass(clock, 20 + WINDOW_S + 3);
  expect(looks).toHaveBeenCalled();
  vi.restoreAllMocks();
  await process.stop();
  expect(cpu(await eventsOf(ledger))).toBeCloseTo(WINDOW_S / 3_600, 6);
});

test('others have their turns while a window is measured, and what arrives in them is billed by what it says', async () => {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const settings = { current: settingsOf({ COLLECTION_INTERVAL: `${WINDOW_S}s` }) };
  const objects = { pods: Array.from({ length: PODS }, (_, index) => podOf(index)) };
  const process = await startProcess({ clock, ledger, settings, objects });
  process.discover([cluster('a')]);
  await pass(clock, 20 + WINDOW_S - 6);
  slowly(clock);
  let turns = 0;
  // oxlint-disable-next-line typescript/unbound-method -- called with its turn below
  const { next } = Turn.prototype;
  vi.spyOn(Turn.prototype, 'next').mockImplementation(async function (this: Turn) {
    turns += 1;
    // The first of them has been measured by then, the last one has not.
    if (turns === 1) {
      for (const index of [0, PODS - 1]) process.pods.apply(podOf(index, START + 30_000));
    }
    await next.call(this);
  });
  await pass(clock, 20);
  expect(turns).toBeGreaterThan(3);
  vi.restoreAllMocks();
  await pass(clock, WINDOW_S);
  await process.stop();
  const events = await eventsOf(ledger);
  const [first, second] = [START, START + WINDOW_S * 1000].map((start) =>
    cpu(events.filter((event) => event.window_start === iso(start))),
  );
  expect(first).toBeCloseTo(((PODS - 2) * WINDOW_S + 2 * 30) / 3_600, 6);
  // Nothing was left to be given back, nor to be charged late.
  expect(second).toBeCloseTo(((PODS - 2) * WINDOW_S) / 3_600, 6);
});

test('a heap that is nearly full is collected while a window is closed, and not in the quiet before', async () => {
  const clock = clockAt(-20);
  const early: number[] = [];
  const collectEarly = (is: boolean): void => {
    if (is) early.push((clock.now() - START) / 1000);
  };
  const process = await startProcess({
    clock,
    ledger: createMemoryLedger(),
    settings: { current: settingsOf({ COLLECTION_INTERVAL: `${WINDOW_S}s` }) },
    objects: { pods: [podOf(0)] },
    heap: { collectEarly },
  });
  process.discover([cluster('a')]);
  await pass(clock, 20 + 2 * WINDOW_S + 10);
  await process.stop();
  const ofEach = Object.values(Object.groupBy(early, (at) => Math.floor(at / WINDOW_S)));
  expect(ofEach).toHaveLength(2);
  for (const times of ofEach) {
    expect(times?.length).toBeGreaterThan(3);
    for (const at of times ?? []) {
      expect(at % WINDOW_S).toBeGreaterThanOrEqual(WINDOW_S - 10);
      expect(at % WINDOW_S).toBeLessThan(WINDOW_S - 5);
    }
  }
});

test('a window is closed as soon as it is due: nearly all of its pods have been measured by then', async () => {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const settings = { current: settingsOf({ COLLECTION_INTERVAL: `${WINDOW_S}s` }) };
  const objects = { pods: Array.from({ length: PODS }, (_, index) => podOf(index)) };
  const process = await startProcess({ clock, ledger, settings, objects });
  process.discover([cluster('a')]);
  await pass(clock, 20 + WINDOW_S - 6);
  slowly(clock);
  const turns = vi.spyOn(Turn.prototype, 'next');
  await pass(clock, 6);
  const before = turns.mock.calls.length;
  expect(before).toBeGreaterThan(3);
  await pass(clock, 4);
  expect(cpu(await eventsOf(ledger))).toBeCloseTo((PODS * WINDOW_S) / 3_600, 6);
  expect(turns.mock.calls.length - before).toBeLessThan(before / 2);
  vi.restoreAllMocks();
  await process.stop();
});
