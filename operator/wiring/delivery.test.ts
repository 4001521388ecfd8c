import { expect, test } from 'vitest';
import { startedSettings } from '../controllers/testing/settings.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { cluster } from '../metering/testing/objects.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { createCursorRetirement, openGaps } from './delivery.ts';

const gap = (scope: string, source = 'pods', to = 1_000) => ({
  source,
  scope,
  from: 0,
  to,
  reason: 'cannot be read',
});

test('a tenant is offboarded while a failed watch still hides its last usage', () => {
  expect(openGaps([gap('pods')], [], 500)('acme')).toBe(true);
});

test('a gap that nothing can fill keeps a tenant subscribed for ever', () => {
  expect(openGaps([gap('pods', 'metrics')], [], 500)('acme')).toBe(false);
  expect(openGaps([gap('pods', 'pods', 400)], [], 500)('acme')).toBe(false);
  expect(openGaps([gap('tenant-of-old', 'collector')], [], 500)('acme')).toBe(false);
});

test('a gap of one tenant cluster keeps another tenant subscribed', () => {
  const clusters = [cluster('a'), cluster('b')];
  const [own, other] = clusters;
  const has = openGaps([gap(own?.id ?? '')], clusters, 500);
  expect(has(own?.tenant ?? '')).toBe(true);
  expect(has(other?.tenant ?? '')).toBe(false);
});

const SIGNAL = new AbortController().signal;

function retirement(ledger: Ledger, apply: () => Promise<void>) {
  const context = { ledger, settings: startedSettings(), clock: systemClock };
  return createCursorRetirement(context, { apply });
}

function retiredAt(ledger: Ledger): number | undefined {
  return ledger.cursors().find(({ destination }) => destination === 'main')?.retiredAt;
}

test('a batch under way does not revive the cursor after it was retired', async () => {
  const ledger = createMemoryLedger();
  await ledger.commitCursor('main', 0);
  const cursors = retirement(ledger, async () => {
    // The feeder's last commit, as delivery lets go of the destination.
    await ledger.commitCursor('main', 0);
  });
  expect(await cursors.retire('main', SIGNAL)).toEqual({ kind: 'retired' });
  expect(retiredAt(ledger)).toBeTypeOf('number');
});

test('a destination that never delivered does not block its own deletion', async () => {
  const cursors = retirement(createMemoryLedger(), async () => {});
  expect(await cursors.retire('main', SIGNAL)).toEqual({ kind: 'retired' });
});

test('a ledger that cannot write keeps the object, so that retiring is tried again', async () => {
  const ledger = createMemoryLedger();
  await ledger.commitCursor('main', 0);
  const full: Ledger = {
    ...ledger,
    retireCursor: async () => ({ kind: 'failed', cause: 'full', message: 'ledger: no room' }),
  };
  const cursors = retirement(full, async () => {});
  expect(await cursors.retire('main', SIGNAL)).toEqual({
    kind: 'failed',
    reason: 'ledger: no room',
  });
  expect(retiredAt(ledger)).toBeUndefined();
});
