import { describe, expect, test } from 'vitest';
import { parseDecimal } from '../../operator/model/decimal.ts';
import type { ReceivedEvent } from '../long/received.ts';
import { type Account, accountFor, type Evidence, NOTHING_WRONG } from './account.ts';
import { BURST, SAMPLED, type Series, seriesWithin } from './truth.ts';

const WINDOW_MS = 10_000;
const STRETCH = {
  from: Date.parse('2026-01-01T00:00:00Z'),
  to: Date.parse('2026-01-01T00:01:00Z'),
};
/** From 00:00:12 to 00:00:25. */
const POD = {
  uid: 'u',
  namespace: 'tenant-burst',
  name: 'job-1',
  tenantCluster: BURST,
  tenantNamespace: 'job-1',
  requests: {},
  startedAt: '2026-01-01T00:00:12Z',
  finishedAt: '2026-01-01T00:00:25Z',
  seconds: 13,
};

const at = (second: number): number => STRETCH.from + second * 1000;
const iso = (second: number): string => new Date(at(second)).toISOString();

/** What a program bills that does everything right. */
function billedRight(): readonly ReceivedEvent[] {
  const events: ReceivedEvent[] = [];
  for (let from = 0; from < 60; from += 10) {
    for (const series of seriesWithin(STRETCH, [POD])) {
      const ran =
        Math.min(series.stretch.to, at(from + 10)) - Math.max(series.stretch.from, at(from));
      if (ran > 0) events.push(eventOf(series, from, (series.rate * ran) / 3_600_000));
    }
    for (const { name } of SAMPLED) {
      const id = name.split(' ').at(-1) ?? '';
      events.push(event('tenant_cpu_core_hours', id, from, 0.001));
    }
  }
  return events;
}

function eventOf({ name, tenantCluster }: Series, from: number, quantity: number): ReceivedEvent {
  const [metric = '', ...rest] = name.split(' ');
  const namespace = tenantCluster === BURST && rest[1] === 'the' ? rest.at(-1) : undefined;
  return event(metric, tenantCluster, from, quantity, namespace);
}

function event(
  metric: string,
  cluster: string,
  from: number,
  quantity: number,
  namespace?: string,
): ReceivedEvent {
  const exact = parseDecimal(quantity.toFixed(9));
  if (exact === undefined) throw new Error('no decimal');
  return {
    id: `${metric}/${cluster}/${namespace ?? ''}/${from}`,
    tenant: cluster,
    metric,
    quantity: exact,
    window_start: iso(from),
    window_end: iso(from + 10),
    recorded_at: iso(from + 13),
    dimensions: { tenant_cluster: cluster, ...(namespace !== undefined && { namespace }) },
  };
}

function account(changes: Partial<Evidence> = {}): Account {
  const ledger = changes.ledger ?? billedRight();
  return accountFor({
    stretch: STRETCH,
    windowMs: WINDOW_MS,
    sampledFrom: STRETCH.from,
    ended: [POD],
    ledger,
    gaps: [],
    recorded: { requests: [], usage: new Map(ledger.map(({ id }) => [id, new Set(['{}'])])) },
    terms: [],
    ...changes,
  });
}

const gap = (from: number, to: number, scope: string, source = 'kubernetes') => ({
  source,
  reason: 'no process was there',
  scopes: [scope],
  stretches: [{ from: iso(from), to: iso(to) }],
});
const EVERYTHING = ['pods', 'volumes', 'load-balancers', 'workloads'];
const startsAt =
  (second: number) =>
  ({ window_start: start }: ReceivedEvent): boolean =>
    start === iso(second);

describe('the account of a run finds', () => {
  test('nothing wrong where all that ran was billed and delivered once', () => {
    expect(account()).toEqual({ figures: NOTHING_WRONG, wrong: [] });
  });

  test('nothing wrong in what was billed before and after', () => {
    const [lasting] = seriesWithin(STRETCH, []);
    if (lasting === undefined) throw new Error('nothing lasts');
    const others = [-10, 60].map((from) => eventOf(lasting, from, lasting.rate / 360));
    expect(account({ ledger: [...billedRight(), ...others] }).figures).toEqual(NOTHING_WRONG);
  });

  test('an event that the receiver never got, and one that came with two contents or is not in the ledger', () => {
    const ledger = billedRight();
    const usage = new Map(ledger.map(({ id }) => [id, new Set(['{}'])]));
    const [first, second] = ledger;
    usage.delete(first?.id ?? '');
    usage.set(second?.id ?? '', new Set(['{"quantity":1}', '{"quantity":2}']));
    usage.set('nowhere', new Set(['{}']));
    const { figures } = account({ ledger, recorded: { requests: [], usage } });
    expect(figures).toEqual({ ...NOTHING_WRONG, lost: 1, duplicated: 2 });
  });

  test('a window without any event, unless a gap covers it', () => {
    const ledger = billedRight().filter((each) => !startsAt(30)(each));
    const series = seriesWithin(STRETCH, []).length + SAMPLED.length;
    expect(account({ ledger }).figures).toEqual({
      ...NOTHING_WRONG,
      empty_windows: 1,
      unreported: 10 * series,
    });
    const gaps = EVERYTHING.map((scope) => gap(30, 40, scope));
    expect(account({ ledger, gaps }).figures).toEqual(NOTHING_WRONG);
  });

  test('a window that was not billed, though another one was billed and is in a gap as well', () => {
    const ledger = billedRight().filter(
      (each) => !startsAt(30)(each) || each.dimensions?.['namespace'] === undefined,
    );
    const gaps = EVERYTHING.map((scope) => gap(40, 50, scope));
    expect(account({ ledger, gaps }).figures).toEqual({ ...NOTHING_WRONG, unreported: 10 });
  });

  test('nothing wrong in a late fact, which is billed in a later window', () => {
    const ledger = billedRight().map((each) => {
      if (each.dimensions?.['namespace'] !== 'job-1') return each;
      return startsAt(10)(each)
        ? event(each.metric, BURST, 10, 0, 'job-1')
        : event(each.metric, BURST, 20, (3.6 * 13) / 3600, 'job-1');
    });
    expect(account({ ledger }).figures).toEqual(NOTHING_WRONG);
  });

  test('nothing wrong in a credit for one pod that another one of its tenant was given', () => {
    const core = 3.6 / 3600;
    const given = (steady: number) =>
      billedRight().map((each) => {
        if (each.dimensions?.['namespace'] === 'job-1' && startsAt(20)(each)) {
          return event(each.metric, BURST, 20, core * 10, 'job-1');
        }
        return each.dimensions?.['namespace'] === 'steady' && startsAt(30)(each)
          ? event(each.metric, BURST, 30, core * steady, 'steady')
          : each;
      });
    expect(account({ ledger: given(5) }).figures).toEqual(NOTHING_WRONG);
    expect(account({ ledger: given(6) }).figures).toMatchObject({ duplicated: 1, unreported: 0 });
    expect(account({ ledger: given(4) }).figures).toMatchObject({ duplicated: 0, unreported: 1 });
  });

  test('nothing wrong in an end that nobody saw, if the event says by how much', () => {
    const cut = billedRight().map((each) =>
      each.dimensions?.['namespace'] === 'job-1' && startsAt(20)(each)
        ? { ...event(each.metric, BURST, 20, (3.6 * 2) / 3600, 'job-1') }
        : each,
    );
    expect(account({ ledger: cut }).figures).toEqual({ ...NOTHING_WRONG, unreported: 3 });
    const stated = cut.map((each) => ({ ...each, properties: { uncertain_seconds: '3' } }));
    expect(account({ ledger: stated }).figures).toEqual(NOTHING_WRONG);
  });

  test('one second of a pod that is missing, or was billed twice', () => {
    const second = 3.6 / 3600;
    const change = (by: number) =>
      billedRight().map((each) =>
        each.dimensions?.['namespace'] === 'job-1' && startsAt(10)(each)
          ? { ...event(each.metric, BURST, 10, Number(each.quantity) + by, 'job-1') }
          : each,
      );
    expect(account({ ledger: change(-second) }).figures).toEqual({
      ...NOTHING_WRONG,
      unreported: 1,
    });
    expect(account({ ledger: change(second) }).figures).toEqual({
      ...NOTHING_WRONG,
      duplicated: 1,
    });
  });

  test('usage that was not sampled in a window, unless a gap of the metrics says so', () => {
    const [sampled] = SAMPLED;
    const ledger = billedRight().filter(
      (each) => sampled?.matches(each) !== true || !startsAt(20)(each),
    );
    expect(account({ ledger }).figures).toEqual({ ...NOTHING_WRONG, unreported: 10 });
    expect(account({ ledger, sampledFrom: at(21) }).figures).toEqual(NOTHING_WRONG);
    const gaps = [gap(22, 25, sampled?.tenantCluster ?? '', 'metrics')];
    expect(account({ ledger, gaps }).figures).toEqual(NOTHING_WRONG);
  });

  test('a gap of sampled usage explains nothing that is billed by its life', () => {
    const ledger = billedRight().filter((each) => !startsAt(30)(each));
    const gaps = [gap(30, 40, '*', 'metrics')];
    expect(account({ ledger, gaps }).figures.empty_windows).toBe(1);
  });

  test('what a process sends after another one led, and nothing of a process that is about to lead', () => {
    const terms = [
      { pod: 'a', pid: 1, from: at(0) },
      { pod: 'b', pid: 2, from: at(20) },
      { pod: 'a', pid: 1, from: at(90) },
    ];
    const requests = [
      { at: at(10), pid: 1 },
      { at: at(15), pid: 2 },
      { at: at(25), pid: 1 },
      { at: at(30), pid: 2 },
      { at: at(59), pid: 1 },
      { at: at(61), pid: 1 },
      { at: at(100), pid: 2 },
    ];
    const usage = new Map(billedRight().map(({ id }) => [id, new Set(['{}'])]));
    expect(account({ recorded: { requests, usage }, terms }).figures).toEqual({
      ...NOTHING_WRONG,
      sent_by_old_leader: 3,
    });
  });
});
