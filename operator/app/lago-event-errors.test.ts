import { afterEach, expect, test, vi } from 'vitest';
import { type FakeLago, startFakeLago } from '../../e2e/fakes/lago/lago.ts';
import { destinationClaims } from '../controllers/destination-status.ts';
import { type MonthWorld, on, startMonths } from '../delivery/testing/month-world.ts';
import { lagoOptions } from '../delivery/testing/vendor-options.ts';
import { createOfflineEnforcement } from '../billing/enforcement/testing/offline-enforcement.ts';
import { startTestServer, testSettings } from '../http/testing/test-server.ts';

const METRIC = 'tenant_instance_hours';
const HMAC_KEY = 'lago-hmac-key';
const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/** Lago with the operator's webhook endpoint, the delivery engine and the HTTP server. */
async function start(): Promise<MonthWorld & { readonly lago: FakeLago }> {
  const lago = await startFakeLago({
    apiKey: 'key',
    webhookSignature: { algorithm: 'hmac', key: HMAC_KEY },
  });
  closers.push(() => lago.close());
  const options = lagoOptions(lago.url);
  const world = await startMonths({ settings: { type: 'lago', options }, advanceTo: lago.turnTo });
  closers.push(() => world.stop());
  const environment = { LAGO_WEBHOOK_SECRET: HMAC_KEY };
  const settings = testSettings(environment);
  const { ledger, clock } = world;
  const enforcement = await createOfflineEnforcement({
    ledger,
    clock,
    settings: () => settings,
    tenants: () => [],
    report: (...reported) => world.delivery().report(...reported),
  });
  const server = await startTestServer({ environment, ledger, views: { enforcement } });
  closers.push(() => server.close());
  lago.webhooks.connect(`http://127.0.0.1:${server.port}/webhooks/lago`);
  return { ...world, lago };
}

function conditions(world: MonthWorld): readonly { type: string; message: string }[] {
  const [progress] = world.delivery().statuses();
  if (progress === undefined) throw new Error('no destination');
  return destinationClaims({ specStatus: { kind: 'accepted' }, suspended: false, progress });
}

test('events of a metric that somebody deleted at Lago are reported within the hour, and still after a restart', async () => {
  const world = await start();
  const { lago } = world;
  world.turnTo('01-05T08:01');
  await world.use('01-05T08:00', '1');
  world.turnTo('01-05T09:06');
  lago.state.metrics.delete(METRIC);
  world.turnTo('01-05T09:10');
  await world.use('01-05T09:10', '2');
  await world.use('01-05T09:11', '3');
  expect(conditions(world).map(({ type }) => type)).not.toContain('LateRefusals');
  await lago.webhooks.turnTo(on('01-05T10:06'));
  world.turnTo('01-05T10:06');
  const report = {
    events: 2,
    reason: 'invalid_code: no billable metric has their code',
    example: `${METRIC}:01-05T09:10`,
  };
  expect(world.delivery().status('bills')?.lateRefusals).toMatchObject([report]);
  await world.restart();
  await vi.waitFor(() =>
    expect(world.delivery().status('bills')?.lateRefusals).toMatchObject([report]),
  );
  expect(conditions(world)).toContainEqual(
    expect.objectContaining({
      type: 'LateRefusals',
      message: expect.stringContaining(`such as event ${METRIC}:01-05T09:10: invalid_code`),
    }),
  );
  // The restart has made the metric again; without it, the next hour's are added. All of it is over
  // a week later.
  lago.state.metrics.delete(METRIC);
  await world.use('01-05T10:10', '1');
  await lago.webhooks.turnTo(on('01-05T11:06'));
  expect(world.delivery().status('bills')?.lateRefusals).toMatchObject([
    { ...report, events: 3, example: `${METRIC}:01-05T10:10` },
  ]);
  const reports = lago.webhooks
    .deliveries()
    .filter(({ message }) => message.type === 'events.errors');
  expect(reports.map(({ attempts }) => attempts.length)).toStrictEqual([1, 1]);
  world.turnTo('01-12T11:07');
  expect(world.delivery().status('bills')?.lateRefusals).toStrictEqual([]);
});
