import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Ledger, LedgerFailure } from '../../ledger/ledger.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { useLedgers } from '../../ledger/testing/use-ledgers.ts';
import { correctionOf } from '../../model/correction.ts';
import { deriveEventId } from '../../model/event-id.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { HeldUsage } from './ledger-held-usage.ts';
import { loadHeldUsage } from './testing/held-usage.ts';

const used = useLedgers();
const KNOWN = 'acme';

/** Pushed for `tenant`, with the derived id. */
function pushed(tenant: string, change: Partial<UsageEvent> = {}): UsageEvent {
  const event = {
    ...testEvent({ tenant }),
    metric: 'tokens_used',
    source: 'ingest:api',
    ...change,
  };
  return { ...event, id: change.id ?? deriveEventId(event) };
}

async function world(
  ledger: Ledger = createMemoryLedger(),
  change?: Parameters<typeof loadHeldUsage>[1],
) {
  const held = await loadHeldUsage(ledger, {
    isDiscovered: (tenant) => tenant === KNOWN,
    ...change,
  });
  return { ledger, held };
}

async function stored(ledger: Ledger): Promise<readonly string[]> {
  const page = await ledger.read(0, 10_000);
  if (page.kind === 'failed') throw new Error(page.message);
  return page.events.map(({ event }) => `${event.tenant} ${event.id}`);
}

async function outcomes(held: HeldUsage, ...events: UsageEvent[]): Promise<readonly string[]> {
  const outcome = await held.push(events);
  if (outcome.kind !== 'appended') throw new Error(outcome.kind);
  return outcome.outcomes;
}

describe('usage of a tenant that nobody knows', () => {
  test('is kept durably where no destination sees it, and known tenants go on', async () => {
    const { ledger, held } = await world();
    const outcome = await held.push([pushed('acm', { id: 'a' }), pushed(KNOWN, { id: 'b' })]);
    expect(outcome).toMatchObject({ outcomes: ['accepted', 'accepted'] });
    expect(outcome).toHaveProperty('held', new Map([['acm', 1]]));
    expect(await stored(ledger)).toStrictEqual(['acme b']);
    const { held: afterCrash } = await world(ledger);
    expect(afterCrash.list()).toMatchObject([{ tenant: 'acm', events: 1 }]);
    expect(afterCrash.pushedTenants()).toMatchObject([{ id: 'acm' }]);
  });

  test('is deduplicated as ever: within a body, against what is held and what is stored', async () => {
    const { held } = await world();
    const event = pushed('acm', { id: 'a', quantity: '1' as UsageEvent['quantity'] });
    const other = { ...event, quantity: '2' as UsageEvent['quantity'] };
    expect(await outcomes(held, event, event, other)).toEqual([
      'accepted',
      'duplicate',
      'conflict',
    ]);
    expect(await outcomes(held, event, other)).toEqual(['duplicate', 'conflict']);
    expect(await outcomes(held, { ...event, tenant: KNOWN })).toEqual(['conflict']);
    await outcomes(held, pushed(KNOWN, { id: 'b' }));
    expect(await outcomes(held, pushed('acm', { id: 'b' }))).toEqual(['conflict']);
    expect(held.list()).toMatchObject([{ tenant: 'acm', events: 1 }]);
  });

  test('is delivered once when it is released, whoever repeats it', async () => {
    const { ledger, held } = await world();
    const events = [pushed('acm', { id: 'a' }), pushed('acm', { id: 'b' })];
    await held.push(events);
    const decided = { kind: 'decided', events: 2, duplicates: 0, conflicts: [] };
    expect(await held.release('acm')).toStrictEqual(decided);
    expect(await outcomes(held, ...events, pushed('acm', { id: 'c' }))).toEqual([
      'duplicate',
      'duplicate',
      'accepted',
    ]);
    expect(await stored(ledger)).toStrictEqual(['acm a', 'acm b', 'acm c']);
    expect(await held.release('acm')).toStrictEqual({ kind: 'none-held' });
    const { held: afterCrash } = await world(ledger);
    expect(await outcomes(afterCrash, pushed('acm', { id: 'd' }))).toEqual(['accepted']);
    expect(afterCrash.list()).toStrictEqual([]);
  });

  test('given another name keeps every id used, and comes once whichever name is sent again', async () => {
    const { ledger, held } = await world();
    const derived = pushed('acm');
    const own = pushed('acm', { id: 'order-7' });
    const right = pushed(KNOWN);
    await held.push([derived, own]);
    expect(await held.rename('acm', KNOWN)).toMatchObject({ events: 2, conflicts: [] });
    expect([...(await stored(ledger))].toSorted()).toStrictEqual([
      'acme order-7',
      `acme ${right.id}`,
    ]);
    const { held: afterCrash } = await world(ledger);
    for (const each of [held, afterCrash]) {
      const again = [derived, own, right, { ...own, tenant: KNOWN }];
      expect(await outcomes(each, ...again)).toEqual(again.map(() => 'duplicate'));
      const other = { ...own, quantity: '9' as UsageEvent['quantity'] };
      expect(await outcomes(each, other, { ...other, tenant: KNOWN })).toEqual([
        'conflict',
        'conflict',
      ]);
    }
    expect(await stored(ledger)).toHaveLength(2);
  });

  test('stays held where the right name has another quantity, and nothing is lost', async () => {
    const { held } = await world();
    await outcomes(held, pushed(KNOWN, { quantity: '5' as UsageEvent['quantity'] }));
    const wrong = pushed('acm', { quantity: '6' as UsageEvent['quantity'] });
    await held.push([wrong]);
    const decided = { kind: 'decided', events: 0, duplicates: 0, conflicts: [wrong.id] };
    expect(await held.rename('acm', KNOWN)).toStrictEqual(decided);
    expect(held.list()).toMatchObject([{ tenant: 'acm', events: 1 }]);
  });

  test('is not given to another stranger, nor to one whose usage the collector measures', async () => {
    const { held } = await world(createMemoryLedger(), {
      isMeasuredHere: ({ tenant, metric }) => tenant === KNOWN && metric === 'tokens_used',
    });
    await held.push([pushed('acm')]);
    expect(await held.rename('acm', 'acmee')).toMatchObject({ kind: 'refused' });
    expect(await held.rename('acm', 'acm')).toMatchObject({ kind: 'refused' });
    expect(await held.rename('acm', KNOWN)).toMatchObject({
      kind: 'refused',
      reason: expect.stringContaining('measured here by the collector'),
    });
    expect(held.list()).toHaveLength(1);
  });

  test('that is given up is not billed when it is sent again', async () => {
    const { ledger, held } = await world();
    const event = pushed('acm', { id: 'a' });
    await held.push([event]);
    expect(await held.discard('acm')).toMatchObject({ events: 1 });
    const { held: afterCrash } = await world(ledger);
    expect(await outcomes(afterCrash, event, { ...event, tenant: KNOWN })).toEqual([
      'duplicate',
      'conflict',
    ]);
    expect(await stored(ledger)).toStrictEqual([]);
    expect(afterCrash.list()).toStrictEqual([]);
  });

  test('goes on by itself once the tenant is discovered, or the setting lets it', async () => {
    const ledger = createMemoryLedger();
    const known = new Set<string>();
    const setting = { unknownTenants: 'hold' as 'hold' | 'create' };
    const { held } = await world(ledger, {
      isDiscovered: (tenant) => known.has(tenant),
      unknownTenants: () => setting.unknownTenants,
    });
    await held.push([pushed('late', { id: 'a' }), pushed('other', { id: 'b' })]);
    await held.releaseKnown();
    expect(held.list()).toHaveLength(2);
    known.add('late');
    await held.releaseKnown();
    expect(await stored(ledger)).toStrictEqual(['late a']);
    setting.unknownTenants = 'create';
    await held.releaseKnown();
    expect(await stored(ledger)).toStrictEqual(['late a', 'other b']);
    expect(held.pushedTenants()).toMatchObject([{ id: 'other' }]);
  });

  test('of a tenant that a destination has served before is not held after an upgrade', async () => {
    const { ledger, held } = await world(createMemoryLedger(), {
      wasServed: async (tenant) => tenant === 'old',
    });
    expect(await outcomes(held, pushed('old', { id: 'a' }))).toEqual(['accepted']);
    expect(await stored(ledger)).toStrictEqual(['old a']);
  });

  test('is where it was on the volume after every restart, held, renamed, corrected', async () => {
    const directory = await used.directory();
    const reopen = async (before?: Ledger) => {
      await before?.close();
      return world(await used.open(directory, { segmentLimits: { events: 2, bytes: 1_000_000 } }));
    };
    let { ledger, held } = await reopen();
    const events = ['a', 'b', 'c', 'd', 'e'].map((id) => pushed('acm', { id }));
    await held.push([...events, pushed(KNOWN, { id: 'k' })]);
    ({ ledger, held } = await reopen(ledger));
    expect(held.list()).toMatchObject([{ tenant: 'acm', events: 5 }]);
    expect(await held.rename('acm', KNOWN)).toMatchObject({ events: 5 });
    ({ ledger, held } = await reopen(ledger));
    expect(await outcomes(held, ...events)).toStrictEqual(events.map(() => 'duplicate'));
    expect(await stored(ledger)).toHaveLength(6);
    const event = await ledger.find('a');
    if (event === undefined) throw new Error('lost');
    const note = { reason: 'pushed twice', author: 'ann' };
    const undone = correctionOf({ event, sequence: 2 }, 1, -16_666_667n, event.recorded_at, note);
    await ledger.append({ events: [undone] });
    ({ ledger, held } = await reopen(ledger));
    expect(await ledger.find(undone.id)).toStrictEqual(undone);
    expect(await ledger.verify()).toMatchObject({ ok: true, records: 7, errors: [] });
  });

  test('that cannot be written is not acknowledged and not shown', async () => {
    const ledger = createMemoryLedger();
    const failure: LedgerFailure = { kind: 'failed', cause: 'full', message: 'no room' };
    const { held } = await world({ ...ledger, writeRecords: async () => failure });
    expect(await held.push([pushed('acm')])).toStrictEqual(failure);
    expect(held.list()).toStrictEqual([]);
  });

  test('at once with others of the same ids is recorded once, whoever is first', async () => {
    const quantities = ['1', '2', '3'] as UsageEvent['quantity'][];
    const push = fc.record({
      tenant: fc.constantFrom('acm', KNOWN),
      id: fc.constantFrom('a', 'b'),
      quantity: fc.constantFrom(...quantities),
    });
    const action = fc.oneof(
      { weight: 4, arbitrary: push.map((event) => ({ event })) },
      { weight: 1, arbitrary: fc.constantFrom('release', 'rename', 'discard', 'crash') },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 12 }), async (actions) => {
        const { ledger, held } = await world();
        let current = held;
        const accepted = new Map<string, number>();
        const running: Promise<void>[] = [];
        for (const each of actions) {
          if (typeof each === 'object') {
            const event = pushed(each.event.tenant, each.event);
            running.push(
              outcomes(current, event).then(([outcome]) => {
                if (outcome !== 'accepted') return;
                accepted.set(event.id, (accepted.get(event.id) ?? 0) + 1);
              }),
            );
          } else if (each === 'crash') {
            await Promise.all(running);
            ({ held: current } = await world(ledger));
          } else if (each === 'rename')
            running.push(current.rename('acm', KNOWN).then(() => undefined));
          else running.push(current[each]('acm').then(() => undefined));
        }
        await Promise.all(running);
        // An id is accepted once, and is stored, held or used once.
        for (const count of accepted.values()) expect(count).toBe(1);
        const ids = (await stored(ledger)).map((line) => line.split(' ')[1]);
        expect(new Set(ids).size).toBe(ids.length);
        const kept: string[] = [];
        for await (const { event } of current.eventsOf('acm')) kept.push(event.id);
        expect(kept.filter((id) => ids.includes(id))).toStrictEqual([]);
      }),
      { numRuns: 200 },
    );
  });
});
