import { expect, test } from 'vitest';
import {
  type PlacementAttempt,
  placementOf,
  reachOf,
  type TenantChanges,
} from './tenant-changes.ts';

const MINUTE_MS = 60_000;
const TEN = Date.UTC(2026, 10, 21, 10, 0, 0);
const at = (minutes: number): number => TEN + minutes * MINUTE_MS;
const SENDING: PlacementAttempt = { wasSetAside: false, isSending: true, now: at(6) };

/** On its second plan since 10:06, when the usage of the first had come; wanted at 10:05. */
const changed: TenantChanges = {
  tenant: 't',
  made: [{ before: at(5), from: at(6), drainedTo: 3 }],
};

test('usage that waited for a plan is that plan’s when the next change is requested as it begins', () => {
  const changes: TenantChanges = {
    ...changed,
    pending: {
      before: at(6),
      requestedAt: at(6),
      mode: 'now',
      current: 'b',
      wanted: 'c',
      wish: 'c',
    },
  };
  const stored = { sequence: 4, start: at(5) };
  expect(placementOf(changes, stored, SENDING)).toEqual({ kind: 'send', at: at(6) });
  const next = { sequence: 5, start: at(6) };
  expect(placementOf(changes, next, SENDING)).toEqual({ kind: 'wait' });
});

test('it stays that plan’s once the next change is made, though seconds are whole', () => {
  const from = at(6) + 250;
  const changes: TenantChanges = {
    ...changed,
    made: [
      { before: at(5), from, drainedTo: 3 },
      { before: from, from: at(7), drainedTo: 9 },
    ],
  };
  const stored = { sequence: 4, start: at(5) };
  const sent = placementOf(changes, stored, SENDING);
  expect(sent).toEqual({ kind: 'send', at: at(6) + 1_000 });
});

test('what is late for two plans is found by its own window', () => {
  const made = [
    { before: at(5), from: at(6), drainedTo: 3 },
    { before: at(20), from: at(21), drainedTo: 9 },
  ];
  const placement = placementOf({ tenant: 't', made }, { sequence: 12, start: at(1) }, SENDING);
  expect(placement).toMatchObject({ kind: 'send', at: at(21) });
  if (placement.noted === undefined) throw new Error('nothing is noted');
  expect(reachOf(placement.noted, at(21))).toBe(at(1));
});
