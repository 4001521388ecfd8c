import { expect, test, vi } from 'vitest';
import type { ManualClock } from '../../kubernetes/testing/manual-clock.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { cluster, iso, pod } from '../meters/testing/objects.ts';
import { cpu, START } from '../meters/testing/world.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import { clockAt, eventsOf, pass, settingsOf, startProcess } from './testing/harness.ts';

const PODS = 200;
const WINDOW_S = 60;
const podOf = (index: number, finishedAt?: number) =>
  pod({
    name: `p${index}`,
    containers: [{ cpu: '1', memory: '1Gi' }],
    ...(finishedAt !== undefined && { phase: 'Succeeded', finishedAt }),
  });

/** Each read of the time takes a millisecond, so that the pods of a window take several slices. */
function slowly(clock: ManualClock): void {
  const begun = clock.now() - clock.monotonic();
  let worked = 0;
  vi.spyOn(clock, 'monotonic').mockImplementation(() => {
    worked += 1;
    return clock.now() - begun + worked;
  });
}

test('others have their turns while a window is measured, and what arrives in them is late and billed once', async () => {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const settings = { current: settingsOf({ COLLECTION_INTERVAL: `${WINDOW_S}s` }) };
  const objects = { pods: Array.from({ length: PODS }, (_, index) => podOf(index)) };
  const process = await startProcess({ clock, ledger, settings, objects });
  process.discover([cluster('a')]);
  await pass(clock, 20 + WINDOW_S + 2);
  slowly(clock);
  let slices = 0;
  // oxlint-disable-next-line typescript/unbound-method -- called with its slice below
  const { next } = TimeSlice.prototype;
  vi.spyOn(TimeSlice.prototype, 'next').mockImplementation(async function (this: TimeSlice) {
    slices += 1;
    // By now the first pod has been measured and the last one has not.
    if (slices === 1) {
      for (const index of [0, PODS - 1]) process.pods.apply(podOf(index, START + 30_000));
    }
    await next.call(this);
  });
  await pass(clock, 12);
  expect(slices).toBeGreaterThan(3);
  vi.restoreAllMocks();
  await pass(clock, WINDOW_S);
  await process.stop();
  const events = await eventsOf(ledger);
  const [first, second] = [START, START + WINDOW_S * 1000].map((start) =>
    cpu(events.filter((event) => event.window_start === iso(start))),
  );
  expect(first).toBeCloseTo((PODS * WINDOW_S) / 3_600, 6);
  // The half window that two of them did not run is given back.
  expect(second).toBeCloseTo(((PODS - 2) * WINDOW_S - 2 * 30) / 3_600, 6);
});
