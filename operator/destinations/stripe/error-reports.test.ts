import { afterEach, describe, expect, test } from 'vitest';
import { reportErrors } from '../../../e2e/fakes/stripe/core-events.ts';
import type { FakeStripeOptions } from '../../../e2e/fakes/stripe/stripe.ts';
import { createStripeWorld, gpuEvent, NEVER, type StripeWorld } from './testing/stripe-world.ts';

const DAY_MS = 86_400_000;
const DELIVERED = { kind: 'delivered' };
let open: StripeWorld | undefined;

afterEach(async () => {
  await open?.close();
  open = undefined;
});

async function world(options: Partial<FakeStripeOptions> = {}): Promise<StripeWorld> {
  open = await createStripeWorld(options);
  return open;
}

describe('what Stripe finds wrong after it has taken it', () => {
  test('is read and reported, once in the log, for a day in the status', async () => {
    const { destination, ready, stripe, time, context, count } = await world();
    await ready();
    const event = gpuEvent();
    const code = 'meter_event_customer_not_found';
    const [meter = ''] = stripe.state.meters.keys();
    const errors = { meter, code, count: 3, message: 'No such customer', request: event.id };
    reportErrors(stripe.state, errors, time.now);
    await destination.send([event], NEVER);
    const reported = {
      at: time.now,
      events: 3,
      reason: `${code}: No such customer`,
      example: event.id,
    };
    expect(destination.alerts.lateRefusals()).toStrictEqual([reported]);
    time.now += 600_000;
    await destination.send([gpuEvent()], NEVER);
    expect(context.logger.lines.filter((line) => line.includes(code))).toStrictEqual([
      `error [stripe] 3 events were accepted and refused later, such as ${event.id}: ${reported.reason}`,
    ]);
    expect(count('GET', '/v2/core/events/')).toBe(1);
    time.now += DAY_MS;
    await destination.send([gpuEvent()], NEVER);
    expect(destination.alerts.lateRefusals()).toStrictEqual([]);
  });

  test.each([
    { keyName: 'idempotency_key' },
    { keyName: 'idempotency_key', type: 'v1.billing.meter.no_meter_found' },
    { keyName: 'identifier', type: 'v1.billing.meter.no_meter_found' },
  ] as const)('names an event by the idempotency key of its request: %j', async (form) => {
    const { destination, ready, stripe, time } = await world();
    await ready();
    const event = gpuEvent();
    const [meter = ''] = stripe.state.meters.keys();
    const request = `${event.id}-2`;
    const errors = { meter, code: 'no_meter', count: 1, message: 'No meter', request, ...form };
    reportErrors(stripe.state, errors, time.now);
    await destination.send([event], NEVER);
    expect(destination.alerts.lateRefusals()).toMatchObject([{ events: 1, example: event.id }]);
  });

  test('that cannot be read delays nothing', async () => {
    const lacks = (_: string, path: string) =>
      path.startsWith('/v2') ? 'rak_events_read' : undefined;
    const { destination, ready, count } = await world({ lacks });
    await ready();
    expect(await destination.send([gpuEvent()], NEVER)).toStrictEqual([DELIVERED]);
    expect(await destination.send([gpuEvent()], NEVER)).toStrictEqual([DELIVERED]);
    expect(count('GET', '/v2/core/events')).toBe(1);
  });

  test('is read again where a report could not be had', async () => {
    const { destination, ready, stripe, time, context } = await world();
    await ready();
    const [meter = ''] = stripe.state.meters.keys();
    const errors = { meter, code: 'no_meter', count: 1, message: 'No meter', request: 'x' };
    reportErrors(stripe.state, errors, time.now);
    stripe.misbehaviours.add({ kind: 'status', path: '/v2/core/events/', times: 1 });
    await destination.send([gpuEvent()], NEVER);
    expect(destination.alerts.lateRefusals()).toStrictEqual([]);
    time.now += 600_000;
    await destination.send([gpuEvent()], NEVER);
    expect(destination.alerts.lateRefusals()).toMatchObject([{ events: 1 }]);
    expect(context.logger.lines.join()).toContain('no_meter: No meter');
  });
});
