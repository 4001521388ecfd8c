import { describe } from 'vitest';
import type { LedgerDatabase } from '../../config/settings.ts';
import type { Ledger } from '../ledger.ts';
import { TEST_WINDOW_START } from '../testing/events.ts';
import {
  type LedgerSubject,
  ledgerLikeModel,
  MODEL_RETENTION_MS,
} from '../testing/ledger-model.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { joinInTurns } from '../testing/postgres-replicas.ts';
import { createStepClock } from '../testing/step-clock.ts';
import type { PostgresLedgerOptions } from './open-postgres-ledger.ts';

const used = usePostgres();

type Open = (database: LedgerDatabase, options: Partial<PostgresLedgerOptions>) => Promise<Ledger>;

/** A ledger whose crashes leave the old process's connections behind, as a process that is cut off does. */
async function openSubject(openStream: Open): Promise<LedgerSubject> {
  const clock = createStepClock(TEST_WINDOW_START);
  const database = await used.server().createDatabase();
  const open = () => openStream(database, { clock, retentionMs: MODEL_RETENTION_MS });
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

describe('one process', () => {
  ledgerLikeModel(() => openSubject(openTestStream));
});

describe('two processes in turns', () => {
  ledgerLikeModel(() => openSubject(joinInTurns));
});
