import { beforeEach, describe, expect, test } from 'vitest';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { decimalFromNanos } from '../model/decimal.ts';
import { MOST_SERIES } from './open-sums.ts';
import type { ReportedRequest } from './reported-request.ts';
import { HOUR, IntakeWorld, START } from './testing/intake-world.ts';

const MINUTE = 60_000;
const ACCEPTED = { kind: 'accepted' };

let ledger: Ledger;
let world: IntakeWorld;

beforeEach(async () => {
  ledger = createMemoryLedger();
  world = new IntakeWorld(ledger);
  await world.begin();
});

describe('a request counts once', () => {
  test('sent twice in one body and in another one at the same moment', async () => {
    const one = request('a', { tokens: 5 });
    const outcomes = await Promise.all([send(one, one), send(one)]);
    const kinds = outcomes.flat().map((reception) => reception.kind);
    expect(kinds.toSorted()).toEqual(['accepted', 'repeated', 'repeated']);
    expect(open('acme')).toEqual(['5']);
  });

  test('repeated by a cached answer to another user, which is shown', async () => {
    await send(request('a', { tokens: 5, subject: 'ann' }));
    expect(await send(request('a', { tokens: 5, subject: 'bob', ago: 1 }))).toEqual([
      { kind: 'repeated', subject: 'ann' },
    ]);
  });

  test('repeated with another quantity, which is refused and kept as a dead letter', async () => {
    await send(request('a', { tokens: 5 }));
    const [reception] = await send(request('a', { tokens: 6 }));
    expect(reception).toMatchObject({
      kind: 'refused',
      reason: 'counted with another quantity: id: "id of a": give each request an id of its own',
    });
    expect(await letters()).toMatchObject([
      { id: 'id of a', source: 'proxy', client: 'gateway', at: START },
    ]);
    expect(open('acme')).toEqual(['5']);
  });

  test('not at all after a failure whose write was stored, until the sender repeats it', async () => {
    world.mortal.meet(['unknown']);
    const outcome = await world.intake.accept([request('a', { tokens: 5 })], 'gateway');
    expect(outcome).toMatchObject({ kind: 'failed', cause: 'retryable' });
    expect(await send(request('b', { tokens: 1 }))).toEqual([ACCEPTED]);
    expect(await keys('intake/entries/')).toEqual(['intake/entries/2026-11-21T09/b']);
    expect(await send(request('a', { tokens: 5 }))).toEqual([ACCEPTED]);
    expect(open('acme')).toEqual(['6']);
  });
});

describe('nothing is taken', () => {
  test('before the records of the process before are read', async () => {
    const next = new IntakeWorld(ledger);
    expect(await next.intake.accept([request('a', {})], 'gateway')).toMatchObject({
      kind: 'failed',
      cause: 'retryable',
    });
  });
});

describe('a request is a dead letter', () => {
  test.each([
    ['too old', { ago: 121 }, /^too old: time: "2026-11-21T07:09:00Z"/],
    ['too far ahead', { ago: -6 }, /^more than 5 minutes ahead: time: "2026-11-21T09:16:00Z"/],
    ['of an unknown metric', { metric: 'tokens' }, /^unknown metric: "tokens"/],
    ['below zero', { tokens: -1 }, /^not a plain decimal .*"-1"$/],
    ['of a tenant that no event may have', { tenant: 'a\nb' }, /^control characters: tenant/],
    ['larger than a sum may be', { tokens: 2e15 }, /^sum larger than/],
  ])('%s', async (_, change, reason) => {
    const [bad, good] = await send(request('a', change), request('b', { tokens: 1 }));
    expect(bad).toMatchObject({ kind: 'refused', reason: expect.stringMatching(reason) });
    expect(good).toEqual(ACCEPTED);
  });

  test('of one series too many', async () => {
    const many = Array.from({ length: MOST_SERIES + 1 }, (_, index) =>
      request(`a${index}`, { tokens: 1, model: `m${index}` }),
    );
    await send(...many.slice(0, MOST_SERIES));
    const [beyond, known] = await send(...many.slice(MOST_SERIES), request('b', { model: 'm0' }));
    expect(beyond).toMatchObject({ reason: expect.stringMatching(/^more than 1000 series/) });
    expect(known).toEqual(ACCEPTED);
  });

  test('and the newest thousand are kept', async () => {
    const refused = Array.from({ length: 600 }, (_, index) => ({ reason: `first ${index}` }));
    await world.intake.accept([], 'gateway', refused);
    await world.restart(ledger);
    world.clock.pass(MINUTE);
    await world.intake.accept(
      [],
      'gateway',
      refused.map(() => ({ reason: 'second' })),
    );
    const stored = await letters();
    expect(stored).toHaveLength(1000);
    expect(stored[0]).toMatchObject({ reason: 'first 200' });
  });
});

describe('a closing', () => {
  test('makes one event of a window, and one more of what came too late', async () => {
    await send(request('a', { tokens: 5 }), request('b', { tokens: 7 }));
    await closeAt('2026-11-21T10:00:59Z');
    expect(await world.events()).toEqual([]);
    await closeAt('2026-11-21T10:01:00Z');
    world.clock.pass(20 * MINUTE);
    await send(request('c', { tokens: 1, ago: 40 }), request('d', { tokens: 2, ago: 41 }));
    await closeAt('2026-11-21T10:59:00Z');
    await closeAt('2026-11-21T11:01:00Z');
    const window = { window_start: '2026-11-21T09:00:00Z', window_end: '2026-11-21T10:00:00Z' };
    expect(await world.events()).toMatchObject([
      { ...window, quantity: '12', source: 'ingest:gateway', id: expect.stringMatching(/^svc1_/) },
      {
        ...window,
        quantity: '3',
        properties: { late: true },
        id: expect.stringMatching(/^late1_/),
      },
    ]);
  });

  test('after a stop of hours covers all of them at once', async () => {
    await send(request('a', { tokens: 5 }), request('b', { tokens: 7, ago: 60 }));
    world.clock.pass(30 * HOUR);
    await world.restart(ledger);
    await world.intake.closeDue();
    const events = await world.events();
    expect(
      events.map(({ window_start, quantity }) => [window_start.slice(11, 13), quantity]),
    ).toEqual(
      expect.arrayContaining([
        ['09', '5'],
        ['08', '7'],
      ]),
    );
    expect(events.map(({ properties }) => properties)).toEqual([undefined, undefined]);
    expect(await keys('intake/entries/')).toEqual([]);
  });

  test('holds the sum of an unknown tenant so that it can be renamed beside the right one', async () => {
    const stranger = { tenant: 'stranger', tokens: 3 };
    await send(request('a', stranger), request('b', stranger), request('c', { tokens: 5 }));
    await closeAt('2026-11-21T10:01:00Z');
    expect(world.held.list()).toMatchObject([{ tenant: 'stranger', events: 1 }]);
    expect(await world.held.rename('stranger', 'acme')).toMatchObject({ events: 1, conflicts: [] });
    const events = await world.events();
    expect(events.map(({ tenant, quantity }) => [tenant, quantity])).toEqual([
      ['acme', '5'],
      ['acme', '6'],
    ]);
  });

  test('drops an hour after the bound, and its requests stay refused when the clock goes back', async () => {
    await send(request('a', { tokens: 5 }));
    await closeAt('2026-11-21T10:01:00Z');
    await closeAt('2026-11-21T11:59:00Z');
    expect(await keys('intake/entries/')).toHaveLength(1);
    await closeAt('2026-11-21T12:01:00Z');
    expect(await keys('intake/entries/')).toEqual([]);
    world.clock.set(START);
    await world.restart(ledger);
    expect(await send(request('a', { tokens: 5 }))).toMatchObject([{ kind: 'refused' }]);
  });

  test('does not pass a request of a failed write, which the sender repeats after a kill', async () => {
    await send(request('a', { tokens: 5 }));
    const late = request('b', { tokens: 2 });
    world.mortal.meet(['unknown']);
    await world.intake.accept([late], 'gateway');
    await closeAt('2026-11-21T10:01:00Z');
    await world.restart(ledger);
    await send(late);
    await closeAt('2026-11-21T11:01:00Z');
    expect((await world.events()).map(({ quantity }) => quantity)).toEqual(['5', '2']);
  });

  test('that has failed is repeated with the same events', async () => {
    await send(request('a', { tokens: 5 }));
    world.mortal.meet(['unknown', 'stored', 'lost']);
    world.clock.set(Date.parse('2026-11-21T10:01:00Z'));
    expect(await world.intake.closeDue()).toMatchObject({ kind: 'failed' });
    await send(request('b', { tokens: 2, ago: 20 }));
    expect(await world.intake.closeDue()).toMatchObject({ kind: 'failed' });
    expect(await world.intake.closeDue()).toBeUndefined();
    await closeAt('2026-11-21T11:01:00Z');
    expect((await world.events()).map(({ quantity }) => quantity)).toEqual(['5', '2']);
  });
});

async function send(...requests: readonly ReportedRequest[]) {
  const outcome = await world.intake.accept(requests, 'gateway');
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  return outcome.receptions;
}

async function closeAt(time: string): Promise<void> {
  world.clock.set(Date.parse(time));
  expect(await world.intake.closeDue()).toBeUndefined();
}

function open(tenant: string): readonly string[] {
  return world.intake.openSums(tenant).map(({ nanos }) => decimalFromNanos(nanos));
}

async function keys(prefix: string): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const [key] of ledger.records(prefix)) found.push(key);
  return found;
}

async function letters() {
  return Array.fromAsync(world.intake.deadLetters());
}

interface Change {
  readonly tokens?: number;
  readonly subject?: string;
  readonly tenant?: string;
  readonly metric?: string;
  readonly model?: string;
  /** Minutes. */
  readonly ago?: number;
}

function request(key: string, change: Change): ReportedRequest {
  const { tokens = 1, subject = 'ann', tenant = 'acme', ago = 0 } = change;
  const { metric = 'tenant_inference_tokens', model = 'gpt' } = change;
  return {
    key,
    source: 'proxy',
    id: `id of ${key}`,
    subject,
    tenant,
    at: world.clock.now() - ago * MINUTE,
    quantities: [{ metric, dimensions: { model }, quantity: String(tokens) }],
  };
}
