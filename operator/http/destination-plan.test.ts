import { describe, expect, test } from 'vitest';
import type { PriceQuestion } from '../delivery/operations/price-comparison.ts';
import type { PriceDifference } from '../model/pricing/compare.ts';
import { flat, tiered } from '../model/pricing/testing/price-books.ts';
import { API_TOKEN, quietViews, startTestServer, testSettings } from './testing/test-server.ts';
import type { DestinationOperations } from './views.ts';

const PATH = '/api/v1/destinations/lago/plan';
const settings = testSettings();

/** A server whose destination answers so. */
function serverWith(comparePrices: DestinationOperations['comparePrices'], pricesKnown = true) {
  const quiet = quietViews(() => settings);
  const destinations = {
    ...quiet.destinations,
    operations: { ...quiet.destinations.operations, comparePrices },
  };
  return startTestServer({ views: { destinations, pricesKnown: () => pricesKnown } });
}

describe('the plan of a destination', () => {
  test('has every kind of difference, and counts what is as it should be', async () => {
    const requested: PriceQuestion[] = [];
    const differences: readonly PriceDifference[] = [
      { kind: 'same', price: 'a', place: 'm', id: '1' },
      { kind: 'create', price: 'b', place: 'm{sku="b"}', wanted: flat(2.5, 100) },
      {
        kind: 'change',
        price: 'c',
        place: 'm{sku="c"}',
        id: '1',
        wanted: tiered('graduated', [[10, 3]], 1),
        there: 'package of 10',
      },
      {
        kind: 'end',
        price: 'd',
        place: 'm{sku="d"}',
        id: '1',
        there: tiered('volume', [[10, 3]], 1),
      },
      { kind: 'foreign', place: 'm{sku="e"}', id: '2', there: flat(0) },
      { kind: 'impossible', price: 'f', place: 'm{sku="f"}', why: 'it cannot' },
    ];
    await using server = await serverWith(async (_name, question) => {
      requested.push(question);
      const books = [{ book: 'gold', currency: 'EUR', plan: 'gold-eu', exists: true, differences }];
      return { kind: 'compared', books };
    });
    const { status, json } = await server.call('GET', PATH, { token: API_TOKEN });
    expect(status).toBe(200);
    expect(json).toStrictEqual({
      destination: 'lago',
      day: '2026-11-21',
      plans: [
        {
          price_book: 'gold',
          currency: 'EUR',
          plan: 'gold-eu',
          exists: true,
          same: 1,
          differences: [
            {
              kind: 'create',
              place: 'm{sku="b"}',
              price: 'b',
              wanted: { amount: '2.5', included: '100' },
            },
            {
              kind: 'change',
              place: 'm{sku="c"}',
              price: 'c',
              id: '1',
              wanted: { graduated: [{ upTo: '10', amount: '3' }, { amount: '1' }] },
              there: { other: 'package of 10' },
            },
            {
              kind: 'end',
              place: 'm{sku="d"}',
              price: 'd',
              id: '1',
              there: { volume: [{ upTo: '10', amount: '3' }, { amount: '1' }] },
            },
            { kind: 'foreign', place: 'm{sku="e"}', id: '2', there: { amount: '0' } },
            { kind: 'impossible', place: 'm{sku="f"}', price: 'f', why: 'it cannot' },
          ],
        },
      ],
    });
    await server.call('GET', `${PATH}?day=2026-12-01`, { token: API_TOKEN });
    const { defaultPlanCode: defaultPlan } = settings.billing;
    expect(requested).toStrictEqual([
      { books: [], defaultPlan, day: '2026-11-21' },
      { books: [], defaultPlan, day: '2026-12-01' },
    ]);
  });

  test.each([
    [404, { kind: 'unknown-destination' }, 'no destination "lago"'],
    [409, { kind: 'no-prices', type: 'webhook' }, 'no prices at a webhook'],
    [409, { kind: 'unusable', reason: 'no such Secret' }, 'no such Secret: destination "lago"'],
    [502, { kind: 'failed', reason: 'it is down' }, 'it is down: destination "lago"'],
  ] as const)('is %i where there is none: %j', async (status, outcome, text) => {
    await using server = await serverWith(async () => outcome);
    const answer = await server.call('GET', PATH, { token: API_TOKEN });
    expect(answer.status).toBe(status);
    expect(answer.json).toMatchObject({ error: expect.stringContaining(text) as string });
  });

  test.each(['2026-11-31', 'today', '2026-11-21T00:00:00Z'])('is of no day %j', async (day) => {
    await using server = await serverWith(async () => ({ kind: 'compared', books: [] }));
    const path = `${PATH}?day=${encodeURIComponent(day)}`;
    const answer = await server.call('GET', path, { token: API_TOKEN });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain('day');
  });

  test('waits until the price books are read, and is for those with a token', async () => {
    let requested = 0;
    const compare: DestinationOperations['comparePrices'] = async () => {
      requested += 1;
      return { kind: 'compared', books: [] };
    };
    await using server = await serverWith(compare, false);
    expect((await server.call('GET', PATH, { token: API_TOKEN })).status).toBe(503);
    expect((await server.call('GET', PATH)).status).toBe(401);
    expect(requested).toBe(0);
  });
});
