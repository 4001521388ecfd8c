import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createExplanations, type Explanations } from '../explanations/explanations.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { cluster } from '../metering/testing/objects.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { clockAt, coreSeconds, eventsOf, pass, running, startProcess } from './testing/harness.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'explained-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

/** As an operator's process opens them. */
async function opened(): Promise<Explanations> {
  const logger = createCapturingLogger();
  const oldestEventAt = (): undefined => undefined;
  const made = createExplanations({
    directory,
    room: () => 2 ** 30,
    oldestEventAt,
    clock: systemClock,
    logger,
  });
  await made.open();
  return made;
}

/** Kills the process at its third window: when the ledger has it, or when only its explanations are written. */
async function killedAtThirdWindow(when: 'stored' | 'explained') {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const state = { windows: 0, kill: (): unknown => undefined };
  const alive = await opened();
  /** What is dead writes nothing. */
  const explanations: Pick<Explanations, 'keep'> = {
    keep: async (closed) => {
      if (state.windows < 3) await alive.keep(closed);
    },
  };
  const dying: Ledger = {
    ...ledger,
    append: async (batch) => {
      state.windows += 1;
      if (state.windows === 3) state.kill();
      const isLost = state.windows > 3 || (state.windows === 3 && when === 'explained');
      return isLost
        ? { kind: 'failed', cause: 'retryable', message: 'killed' }
        : ledger.append(batch);
    },
  };
  const objects = { pods: [running] };
  const process = await startProcess({ ledger: dying, clock, objects, explanations });
  state.kill = () => process.kill();
  process.discover([cluster('a')]);
  while (state.windows < 3) await pass(clock, 1);
  await process.ended;
  return { clock, ledger, objects };
}

for (const when of ['stored', 'explained'] as const) {
  test(`every event of a window is explained though the process was killed once it was ${when}`, async () => {
    const { clock, ledger, objects } = await killedAtThirdWindow(when);
    const before = (await eventsOf(ledger)).length;
    await clock.advance(7_000);
    const explanations = await opened();
    const process = await startProcess({ ledger, clock, objects, explanations });
    process.discover([cluster('a')]);
    while ((await eventsOf(ledger)).length < before + 4) await pass(clock, 1);
    await process.kill();
    const events = await eventsOf(ledger);
    const ends = new Set(events.map(({ window_end: end }) => end));
    expect(coreSeconds(events)).toBe(ends.size * 60);
    for (const event of events) {
      expect(await explanations.find(event), `${event.metric} ${event.window_end}`).toMatchObject({
        kind: 'found',
        explanation: { addsUp: true, shares: [[0, 'uid-p', 'p', 0, 0, 60_000, 0.016666667, 0]] },
      });
    }
  });
}
