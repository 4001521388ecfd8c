import { afterEach } from 'vitest';
import { ledgerConformance } from '../testing/conformance.ts';
import { anchorPromises } from '../testing/conformance/anchors.ts';
import { restartPromises } from '../testing/conformance/restart.ts';
import { openTestLedger } from '../testing/level-ledger.ts';
import { scratchDirectory } from '../testing/scratch.ts';

const removals: (() => Promise<void>)[] = [];

async function openEmpty(options: Parameters<typeof openTestLedger>[1] = {}) {
  const { path, remove } = await scratchDirectory();
  removals.push(remove);
  return openTestLedger(path, options);
}

afterEach(async () => {
  for (const remove of removals.splice(0)) await remove();
});

ledgerConformance('the LevelDB ledger', () => openEmpty());
ledgerConformance('the LevelDB ledger with a new segment for every few events', () =>
  openEmpty({ segmentLimits: { events: 3, bytes: 1024 } }),
);

async function place(options: Parameters<typeof openTestLedger>[1] = {}) {
  const { path, remove } = await scratchDirectory();
  removals.push(remove);
  return () => openTestLedger(path, options);
}

restartPromises(() => place({ segmentLimits: { events: 3, bytes: 1024 } }));
anchorPromises(() => place());
