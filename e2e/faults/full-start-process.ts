/**
 * Opens a ledger on a volume that has become full since it was closed. Arguments: a directory; how many KiB
 * are left; the control file and the trace of a shim. Prints one line of JSON: what opened, was read and was written.
 */
import { join } from 'node:path';
import {
  TEST_WINDOW_MS,
  TEST_WINDOW_START,
  testWindow,
} from '../../operator/ledger/testing/events.ts';
import { testOptions } from '../../operator/ledger/testing/level-ledger.ts';
import { openLevelLedger } from '../../operator/ledger/leveldb/open-level-ledger.ts';
import { openFaultyDisk } from './subject/disk.ts';

const WINDOWS = 20;
const WINDOW_EVENTS = 20;
const RESERVE_BYTES = 2 * 1024 * 1024;
const [directory = '', leaveKiB = '0', control = '', trace = ''] = process.argv.slice(2);
const disk = openFaultyDisk(control, trace);
const options = testOptions(join(directory, 'data'), {
  reserveBytes: RESERVE_BYTES,
  freeBytes: async () => disk.freeBytes(),
});
const windowAt = (index: number) =>
  testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, WINDOW_EVENTS);

const first = await openLevelLedger(options);
if (first.kind === 'failed') throw new Error(first.message);
for (let index = 0; index < WINDOWS; index += 1) {
  await first.ledger.append({ events: windowAt(index) });
}
await first.ledger.close();
disk.setRoom(Number(leaveKiB) * 1024);
const again = await openLevelLedger(options);
if (again.kind === 'failed') {
  console.log(JSON.stringify({ kind: again.kind, cause: again.cause, message: again.message }));
} else {
  const { ledger } = again;
  const head = ledger.head();
  const moved = await ledger.commitCursor('lago', head);
  const appended = await ledger.append({ events: windowAt(WINDOWS) });
  const { problems } = ledger.stats();
  const { errors } = await ledger.verify();
  const result = { head, moved: moved.kind, appended: appended.kind };
  console.log(JSON.stringify({ kind: again.kind, ...result, problems: [...problems, ...errors] }));
  await ledger.close();
}
