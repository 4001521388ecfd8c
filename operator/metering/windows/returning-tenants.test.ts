import { expect, test } from 'vitest';
import { createHandTenant } from './testing/hand-tenant.ts';
import { at, clockAt } from './testing/harness.ts';
import { createObservation } from '../timelines/observation.ts';
import { NODE_SETTINGS } from '../meters/testing/objects.ts';
import { TenantJournal } from './tenant-journal.ts';
import { TenantScopes } from './tenant-scopes.ts';

const MINUTE = 60_000;

/**
 * Only the scope of tenant cluster `a`, whose windows were closed up to the first minute before a
 * restart.
 */
function setUp() {
  const clock = clockAt(90);
  const { tenantClusters } = createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
  });
  const come = () => createHandTenant({ id: 'a', clock, tenantClusters });
  const here = [come()];
  const progress = (end: number) => ({ end: at(end), sizeMs: MINUTE, meteredFrom: at(0) });
  const scopes = new TenantScopes({
    tenants: { list: () => here, release: () => void here.pop() },
    restored: new Map([['a', progress(60)]]),
    host: () => progress(60),
    wantedMs: () => MINUTE,
    learnt: () => 0,
  });
  scopes.refresh(at(90));
  return {
    scopes,
    only: () => {
      const [scope] = scopes.all;
      if (scope === undefined) throw new Error('no scope');
      return scope;
    },
    comeAgain: (now: number) => {
      scopes.drop('a');
      here.push(come());
      scopes.refresh(at(now));
    },
  };
}

test('a tenant cluster that comes again is billed once more for what it was billed for before a restart', () => {
  const { only, comeAgain } = setUp();
  expect(only().progress.end).toBe(at(60));
  comeAgain(600);
  expect(only().progress).toMatchObject({ end: at(600), meteredFrom: at(600) });
});

test('from when on a tenant cluster is metered that comes again is in no journal', () => {
  const { scopes, only, comeAgain } = setUp();
  const journal = new TenantJournal({ add: () => undefined, reason: () => undefined }, ['a']);
  expect(journal.begin(scopes.all)).toEqual([]);
  const [first] = journal.drain(scopes.all, at(90)).map(({ key }) => key);
  journal.forget(only());
  comeAgain(600);
  expect(journal.begin(scopes.all).map(({ key }) => key)).toEqual([first]);
});
