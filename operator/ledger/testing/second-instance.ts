/** A process that opens a ledger, appends one window and prints the outcome. */
import { writeSync } from 'node:fs';
import { openLevelLedger } from '../leveldb/open-level-ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from './events.ts';
import { testOptions } from './level-ledger.ts';

const opened = await openLevelLedger(testOptions(process.argv[2] ?? ''));
if (opened.kind === 'failed') {
  writeSync(1, `${opened.cause}: ${opened.message}\n`);
} else {
  const events = testWindow(TEST_WINDOW_START + TEST_WINDOW_MS, 5);
  const outcome = await opened.ledger.append({ events });
  await opened.ledger.close();
  writeSync(1, outcome.kind === 'appended' ? `appended ${outcome.head}\n` : `${outcome.cause}\n`);
}
