import { expect, test } from 'vitest';
import { Explanations } from '../explanations/explanations.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { cluster } from '../meters/testing/objects.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { clockAt, coreSeconds, eventsOf, pass, running, startProcess } from './testing/harness.ts';

/** The same as in an operator's process. */
function opened(ledger: Ledger): Explanations {
  const logger = createCapturingLogger();
  const older = { find: async () => undefined };
  return new Explanations(ledger, older, systemClock, logger);
}

/**
 * Kills the process at its third window: after the ledger has it, or after only its explanations
 * are made.
 */
async function killedAtThirdWindow(when: 'stored' | 'explained') {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const state = { windows: 0, kill: (): unknown => undefined };
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
  const process = await startProcess({
    ledger: dying,
    clock,
    objects,
    explanations: opened(ledger),
  });
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
    const explanations = opened(ledger);
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
