import { expect, test } from 'vitest';
import { encodeEvent, type UsageEvent } from '../../../operator/model/event.ts';
import type { LedgerEnd } from '../subject/messages.ts';
import { verify } from '../verification.ts';
import { eventsOf } from '../workload.ts';
import { billOf, type ReadRecord } from './bill.ts';

const EVENTS = eventsOf(1, 0, { kind: 'window', events: 30, windowStart: 0 });

function recordOf(event: UsageEvent): ReadRecord {
  const { id, metric, tenant } = event;
  const headers = { ce_type: `io.meterfeed.usage.v1.${metric}`, ce_id: id, ce_subject: tenant };
  return { key: tenant, value: encodeEvent(event), headers };
}

/** The verdict on a topic with these records, of a ledger that holds all events. */
function decisionOn(records: readonly ReadRecord[]): ReturnType<typeof verify> {
  const all = new Map(EVENTS.map((event) => [event.id, event]));
  const ledger: LedgerEnd = {
    events: EVENTS.map((event, index) => [index + 1, event.id, encodeEvent(event)] as const),
    deadLetters: [],
    horizon: 0,
  };
  const bills = [{ name: 'kafka' as const, ...billOf(records) }];
  return verify({ acknowledged: all, offered: all, ledger, bills, inOrder: true });
}

const RECORDS = EVENTS.map(recordOf);
const [first, ...rest] = RECORDS;
if (first === undefined) throw new RangeError('a topic without records');
const SOUND = { lost: 0, duplicated: 0, undetectedCorruption: 0, wrong: [] };

test('a topic that has every event in order is sound, also where a batch was written again, and its repeats are counted', () => {
  expect(decisionOn(RECORDS)).toMatchObject(SOUND);
  expect(decisionOn([...RECORDS.slice(0, 9), ...RECORDS.slice(4)])).toMatchObject(SOUND);
  expect(billOf([...RECORDS.slice(0, 9), ...RECORDS.slice(4)]).repeats).toBe(5);
});

test('records about tenants and about the catalogue are no usage', () => {
  const reported = { ...first, headers: { ...first.headers, ce_type: 'io.meterfeed.tenant.v1' } };
  expect(billOf([reported, ...RECORDS]).billed).toHaveLength(RECORDS.length);
});

test('a record that is missing counts as lost', () => {
  expect(decisionOn(rest)).toMatchObject({ ...SOUND, lost: 1 });
});

test('records of a tenant that changed places are reported', () => {
  const moved = decisionOn([...rest, first]).wrong;
  expect(moved).toEqual([expect.stringContaining(`of ${first.key} came after`)]);
});

test('an id that comes again with other content is billed twice', () => {
  const [other] = rest;
  const again = { ...first, value: other?.value ?? '' };
  expect(decisionOn([...RECORDS, again])).toMatchObject({ duplicated: 1, undetectedCorruption: 1 });
});

test('a record at the key of another tenant is not what was acknowledged', () => {
  expect(decisionOn([{ ...first, key: 'another' }, ...rest])).toMatchObject({
    undetectedCorruption: 1,
  });
});
