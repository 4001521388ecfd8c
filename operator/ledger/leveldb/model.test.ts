import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { TEST_WINDOW_START } from '../testing/events.ts';
import {
  type LedgerSubject,
  ledgerLikeModel,
  MODEL_RETENTION_MS,
} from '../testing/ledger-model.ts';
import { openTestLedger } from '../testing/level-ledger.ts';
import { scratchDirectory } from '../testing/scratch.ts';
import { createStepClock } from '../testing/step-clock.ts';

/** A ledger of small segments; a crash is a copy of its current directory. */
async function openSubject(): Promise<LedgerSubject> {
  const scratch = await scratchDirectory();
  const clock = createStepClock(TEST_WINDOW_START);
  let generation = 0;
  let directory = join(scratch.path, 'generation-0');
  const open = () =>
    openTestLedger(directory, {
      clock,
      retentionMs: MODEL_RETENTION_MS,
      segmentLimits: { events: 12, bytes: Number.MAX_SAFE_INTEGER },
    });
  const subject: LedgerSubject = {
    ledger: await open(),
    clock,
    async crash() {
      generation += 1;
      const next = join(scratch.path, `generation-${generation}`);
      await cp(directory, next, { recursive: true });
      await subject.ledger.close();
      await rm(directory, { recursive: true });
      directory = next;
      subject.ledger = await open();
    },
    async end() {
      await subject.ledger.close();
      await scratch.remove();
    },
  };
  return subject;
}

ledgerLikeModel(openSubject);
