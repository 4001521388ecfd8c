/**
 * Opens a ledger, prints `ready`, reads events in pages and commits a cursor after each, as a feeder
 * does, then prints the seconds it took and the largest resident size in MiB.
 */
import { openBenchLedger } from './ledger-append.ts';

const PAGE = 500;
const [directory = '', count = '0'] = process.argv.slice(2);
const ledger = await openBenchLedger(directory);
console.log('ready');
const from = performance.now();
for (let after = 0; after < Number(count); ) {
  const page = await ledger.read(after, PAGE);
  if (page.kind === 'failed') throw new Error(page.message);
  const committed = await ledger.commitCursor('bench', page.lastSequence);
  if (committed.kind === 'failed') throw new Error(committed.message);
  after = page.lastSequence;
}
const seconds = (performance.now() - from) / 1_000;
const rssMiB = process.resourceUsage().maxRSS / 1_024;
console.log(`${seconds} ${rssMiB}`);
await ledger.close();
