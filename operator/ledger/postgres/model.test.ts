import { TEST_WINDOW_START } from '../testing/events.ts';
import {
  type LedgerSubject,
  ledgerLikeModel,
  MODEL_RETENTION_MS,
} from '../testing/ledger-model.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { createStepClock } from '../testing/step-clock.ts';

const used = usePostgres();

/**
 * A ledger whose crashes leave the old process's connections open, like a process that is cut off.
 */
async function openSubject(): Promise<LedgerSubject> {
  const clock = createStepClock(TEST_WINDOW_START);
  const database = await used.server().createDatabase();
  const open = () => openTestStream(database, { clock, retentionMs: MODEL_RETENTION_MS });
  const subject: LedgerSubject = {
    ledger: await open(),
    clock,
    async crash() {
      const before = subject.ledger;
      subject.ledger = await open();
      await before.close();
    },
    async end() {
      await subject.ledger.close();
      await used.server().query(`drop database ${database.name} with (force)`);
    },
  };
  return subject;
}

ledgerLikeModel(openSubject);
