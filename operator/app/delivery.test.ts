import { expect, test } from 'vitest';
import { startedSettings } from '../controllers/testing/settings.ts';
import { unknownTenant } from '../delivery/lanes/tenant-directory.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { Revocations } from '../http/portal/revocations.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { departing } from './delivery.ts';
import { destinationCursors, offboarding } from './stream.ts';

const SIGNAL = new AbortController().signal;

function retirement(ledger: Ledger, apply: () => Promise<void>) {
  const settings = startedSettings();
  const name = { source: 'berlin', region: 'eu' };
  const origin = { name, ledger, wanted: () => settings.current().billing.destinations };
  const delivery = { apply, reserve: async () => ({ kind: 'written' }) as const };
  return destinationCursors(() => [{ origin, delivery }], systemClock);
}

function retiredAt(ledger: Ledger): number | undefined {
  return ledger.cursors().find(({ destination }) => destination === 'main')?.retiredAt;
}

/** Customers whose grace is over, until their offboarding is accepted. */
function leaving(left: string[], tokens: Revocations) {
  return {
    departures: () => left.map((id) => ({ tenant: unknownTenant(id), at: 0 })),
    depart: departing({ acceptOffboarding: (id) => void left.splice(left.indexOf(id), 1) }, tokens),
  };
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

test('rounds of discovery hand over the same customers side by side while there are many', async () => {
  const left = ['a', 'b', 'c'];
  const requested: string[] = [];
  const offboardDeparted = offboarding(
    leaving(left, new Revocations(createMemoryLedger(), systemClock)),
    {
      offboard: async ({ id }) => {
        requested.push(id);
        await new Promise(setImmediate);
        return id === 'b' && requested.length < 4
          ? { kind: 'failed', cause: 'full', message: 'ledger: no room' }
          : { kind: 'written' };
      },
    },
    { warn: () => undefined },
  );
  await Promise.all([offboardDeparted(), offboardDeparted(), offboardDeparted()]);
  expect(requested).toEqual(['a', 'b', 'c']);
  await offboardDeparted();
  expect(requested).toEqual(['a', 'b', 'c', 'b']);
  expect(left).toEqual([]);
});

test('a customer that is offboarded keeps no token for the next one of its name', async () => {
  const revocations = new Revocations(createMemoryLedger(), systemClock);
  const claims = { tenant: 'acme', id: 'id-1', series: await revocations.seriesOf('acme') };
  const other = { tenant: 'globex', id: 'id-2', series: await revocations.seriesOf('globex') };
  const left = ['acme'];
  const offboardDeparted = offboarding(
    leaving(left, revocations),
    { offboard: async () => ({ kind: 'written' }) },
    { warn: () => undefined },
  );
  await offboardDeparted();
  expect(left).toEqual([]);
  expect(await revocations.has(claims)).toBe(true);
  expect(await revocations.has(other)).toBe(false);
});
