import { join } from 'node:path';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { TEST_WINDOW_START } from '../testing/events.ts';
import {
  type LedgerModel,
  type LedgerSubject,
  type LedgerCommand,
  ledgerCommands,
  openSubject,
} from '../testing/ledger-model.ts';
import { scratchDirectory } from '../testing/scratch.ts';
import { createStepClock } from '../testing/step-clock.ts';

/** More with LEDGER_MODEL_RUNS, for a long run; LEDGER_SEED repeats one. */
const RUNS = Number(process.env['LEDGER_MODEL_RUNS'] ?? 60);
const SEED = process.env['LEDGER_SEED'];
const RUN_MS = 1_000;

async function compareWithModel(commands: Iterable<LedgerCommand>): Promise<void> {
  const scratch = await scratchDirectory();
  const place = {
    directory: join(scratch.path, 'generation-0'),
    root: scratch.path,
    clock: createStepClock(TEST_WINDOW_START),
    generation: 0,
  };
  const real: LedgerSubject = { ...place, ledger: await openSubject(place) };
  const model: LedgerModel = { events: [], records: new Map(), cursors: new Map(), lowWater: 0 };
  try {
    await fc.asyncModelRun(() => ({ model, real }), commands);
  } finally {
    await real.ledger.close();
    await scratch.remove();
  }
}

test(
  'no order of appends, repeats, commits, records, crashes, clock steps and deletions makes the ledger differ from a plain list',
  async () => {
    const details = await fc.check(fc.asyncProperty(ledgerCommands, compareWithModel), {
      numRuns: RUNS,
      ...(SEED !== undefined && { seed: Number(SEED) }),
    });
    expect(fc.defaultReportMessage(details) ?? 'held').toBe('held');
  },
  RUN_MS * RUNS,
);
