import { afterEach, describe, expect, test } from 'vitest';
import { loadEnvironment } from '../../settings/load-environment.ts';
import { testTenant } from '../../destinations/testing/context.ts';
import { DESTINATIONS } from '../../destinations/registry.ts';
import { usePostgres } from '../../ledger/testing/postgres-ledger.ts';
import { beginHub, playMeter, startHub, startReceiving, usageOf } from './testing/fleet-world.ts';

const used = usePostgres();
const WITHIN = { timeout: 20_000, interval: 50 };
const RANGE = 'from=2026-11-21&to=2026-11-22';
const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});
const started = async <T extends { stop(): Promise<unknown> }>(
  starting: Promise<T>,
): Promise<T> => {
  const it = await starting;
  cleanups.push(() => it.stop());
  return it;
};

/** Everything that there is is fed. */
const FED = { ADAPTERS: 'webhook', DESTINATIONS_START_FROM: 'earliest' };
const ACME = testTenant({ id: 'acme', displayName: 'Acme', clusters: ['tenant-a'] });

describe('ROLE', () => {
  const problemsOf = (environment: Readonly<Record<string, string>>) => {
    const loaded = loadEnvironment(environment, DESTINATIONS);
    return loaded.kind === 'invalid' ? loaded.problems : [];
  };
  const ONE = 'postgresql://m@db-1/ledger';

  test('of a hub or a meter without a database is refused, for nobody would feed it', () => {
    expect(problemsOf({ ROLE: 'hub' })).toEqual([expect.stringMatching(/^ROLE: .*LEDGER_URL/)]);
    expect(problemsOf({ ROLE: 'meter' })).toEqual([expect.stringMatching(/^ROLE: .*LEDGER_URL/)]);
    expect(problemsOf({ ROLE: 'hub', LEDGER_URL: ONE })).toEqual([]);
  });

  test('of a meter that takes regions from nodes is refused, for two clusters would make one id', () => {
    expect(problemsOf({ ROLE: 'meter', LEDGER_URL: ONE, REGION_FROM_NODE: 'true' })).toEqual([
      expect.stringMatching(/^REGION_FROM_NODE: in a fleet/),
    ]);
  });

  test('of a meter with two databases is refused, for its stream is in one', () => {
    const both = `${ONE},\n postgresql://m:p%2Cw@db-2/ledger`;
    expect(problemsOf({ LEDGER_URL: both })).toEqual([
      'LEDGER_URL: several databases: "***"; name one, or set ROLE=hub',
    ]);
    expect(problemsOf({ ROLE: 'hub', LEDGER_URL: both })).toEqual([]);
    expect(problemsOf({ ROLE: 'hub', LEDGER_URL: `${ONE},${ONE}` })).toContainEqual(
      expect.stringMatching(/^LEDGER_URL: one database twice/),
    );
  });
});

describe('a hub over two clusters', () => {
  test('adds up what both measured, distinguishes them, and feeds each event once under its cluster', async () => {
    const database = await used.server().createDatabase();
    const received = await started(startReceiving());
    const berlin = await started(playMeter(database, { source: 'berlin', region: 'eu-1' }));
    const paris = await started(playMeter(database, { source: 'paris', region: 'eu-2' }));
    await berlin.setTenants(ACME);
    await paris.setTenants({ ...ACME, clusters: ['tenant-b'], createdAt: ACME.createdAt + 1 });
    await berlin.ledger.append({ events: [usageOf('acme', 'eu-1')] });
    const hub = await started(startHub([database], { ...FED, WEBHOOK_URL: received.url }));
    await berlin.ledger.append({ events: [usageOf('acme', 'eu-1', 1)] });
    await paris.ledger.append({
      events: [usageOf('acme', 'eu-2'), usageOf('acme', 'eu-2', 1)],
    });
    const usage = (source: string) =>
      received.events.filter((one) => one.startsWith(`${source} io.meterfeed.usage`));
    await expect
      .poll(() => [usage('berlin').length, usage('paris').length], WITHIN)
      .toEqual([2, 2]);
    // One customer, announced once, whoever came first.
    const announced = received.events.filter((one) => one.includes('io.meterfeed.tenant.v1'));
    expect(announced).toHaveLength(1);

    const sums = await hub.get(`/api/v1/usage?group_by=tenant,cluster&${RANGE}`);
    expect(sums).toMatchObject({
      status: 200,
      json: {
        events: 4,
        rows: [
          { tenant: 'acme', cluster: 'berlin', events: 2 },
          { tenant: 'acme', cluster: 'paris', events: 2 },
        ],
      },
    });
    expect(
      await hub.get(`/api/v1/usage?group_by=window,cluster&tenant=acme&${RANGE}`),
    ).toMatchObject({
      json: {
        events: 4,
        rows: ['berlin', 'paris', 'berlin', 'paris'].map((cluster) => ({ cluster })),
      },
    });
    expect(await hub.get(`/api/v1/usage?${RANGE}&cluster=paris`)).toMatchObject({
      json: { events: 2, rows: [{ tenant: 'acme', quantity: 1 }] },
    });
    expect(await hub.get(`/api/v1/usage?${RANGE}`)).toMatchObject({
      json: { events: 4, rows: [{ tenant: 'acme', quantity: 2 }] },
    });
    expect(await hub.get('/api/v1/tenants')).toMatchObject({
      json: { tenants: [{ id: 'acme', clusters: ['tenant-a', 'tenant-b'] }] },
    });
    expect(await hub.get('/api/v1/tenants?cluster=berlin')).toMatchObject({
      json: { tenants: [{ id: 'acme', clusters: ['tenant-a'] }] },
    });
    expect(await hub.get('/api/v1/fleet')).toMatchObject({
      json: {
        role: 'hub',
        streams: [
          { cluster: 'berlin', region: 'eu-1', events: 2, meter: { version: '1.2.3' } },
          { cluster: 'paris', region: 'eu-2', events: 2, meter: { ready: true } },
        ],
      },
    });
    expect(await hub.get('/api/v1/status')).toMatchObject({
      status: 200,
      json: { ready: true, destinations: [{ name: 'webhook', committed: 4 }] },
    });
    expect(await hub.get('/api/v1/status?cluster=paris')).toMatchObject({
      json: { cluster: 'paris', region: 'eu-2', destinations: [{ name: 'webhook', committed: 2 }] },
    });
    expect(await hub.text('/metrics')).toMatch(
      /meterfeed_destination_delivered_total\{.*cluster="berlin".*\} [1-9]/,
    );
  }, 60_000);

  test('is ready with no stream, and answers that nothing is used, while its database cannot list them', async () => {
    const database = await used.server().createDatabase();
    await started(playMeter(database, { source: 'berlin', region: 'eu-1' }));
    const rename = (from: string, to: string) =>
      used
        .server()
        .query(`alter table meterfeed_berlin.stream rename ${from} to ${to}`, database.name);
    await rename('region', 'elsewhere');
    const hub = await started(beginHub([database]));
    const checks = () => hub.text('/readyz?verbose').catch(() => '');
    await expect.poll(() => hub.log(), WITHIN).toContain('column "region" does not exist');
    expect(await checks()).toContain('streams failed: the databases are being read');
    await rename('elsewhere', 'region');
    await expect.poll(checks, WITHIN).toContain('streams ok: 1 are read');
  }, 60_000);

  test('answers nothing about one stream unless it is named, and does nothing that only a cluster can', async () => {
    const database = await used.server().createDatabase();
    await started(playMeter(database, { source: 'berlin', region: 'eu-1' }));
    const hub = await started(startHub([database]));
    // A process that stands by is ready as well.
    const unnamed = () => hub.get(`/api/v1/reconcile?${RANGE}`);
    await expect.poll(unnamed, WITHIN).toMatchObject({
      status: 400,
      json: { error: 'this is about one stream: cluster: not given: use one of berlin' },
    });
    expect(await hub.get('/api/v1/ledger/verify?cluster=berlin')).toMatchObject({ status: 200 });
    expect(await hub.get('/api/v1/billing-states?cluster=berlin')).toMatchObject({
      status: 404,
      json: { error: expect.stringContaining('not available at a hub') },
    });
  }, 60_000);

  test('leaves a stream alone whose operator feeds it itself, and says so', async () => {
    const database = await used.server().createDatabase();
    const received = await started(startReceiving());
    const berlin = await started(
      playMeter(database, { source: 'berlin', region: 'eu-1', role: 'all' }),
    );
    const hub = await started(
      startHub([database], { ADAPTERS: 'webhook', WEBHOOK_URL: received.url }),
    );
    await berlin.ledger.append({ events: [usageOf('acme', 'eu-1')] });
    await expect
      .poll(async () => (await hub.get('/api/v1/fleet')).json, WITHIN)
      .toMatchObject({
        streams: [{ events: 1, problem: expect.stringContaining('feeds the destinations itself') }],
      });
    expect(received.events).toEqual([]);
  }, 60_000);

  test('leaves a destination to the meter that has one of the name, says so, and feeds the others', async () => {
    const database = await used.server().createDatabase();
    const received = await started(startReceiving());
    const own = { source: 'berlin', region: 'eu-1', ownDestinations: ['webhook'] };
    const berlin = await started(playMeter(database, own));
    const paris = await started(playMeter(database, { source: 'paris', region: 'eu-2' }));
    const hub = await started(
      startHub([database], { ...FED, ADAPTERS: 'webhook,noop', WEBHOOK_URL: received.url }),
    );
    for (const [meter, region] of [
      [berlin, 'eu-1'],
      [paris, 'eu-2'],
    ] as const) {
      await meter.setTenants(ACME);
      await meter.ledger.append({ events: [usageOf('acme', region)] });
    }
    const usage = () => received.events.filter((one) => one.includes('usage'));
    await expect.poll(usage, WITHIN).toHaveLength(1);
    await expect
      .poll(async () => (await hub.get('/api/v1/fleet')).json, WITHIN)
      .toMatchObject({
        streams: [
          { cluster: 'berlin', problem: expect.stringMatching(/instead of the hub’s: "webhook"/) },
          { cluster: 'paris' },
        ],
      });
    expect(await hub.get('/api/v1/status?cluster=berlin')).toMatchObject({
      json: { destinations: [{ name: 'noop' }] },
    });
    expect(usage()[0]).toMatch(/^paris /);
  }, 60_000);

  test('ends a customer when the last cluster is left, not when the first is', async () => {
    const database = await used.server().createDatabase();
    const received = await started(startReceiving());
    const berlin = await started(playMeter(database, { source: 'berlin', region: 'eu-1' }));
    const paris = await started(playMeter(database, { source: 'paris', region: 'eu-2' }));
    await berlin.setTenants(ACME);
    await paris.setTenants(ACME);
    await started(startHub([database], { ...FED, WEBHOOK_URL: received.url }));
    await berlin.ledger.append({ events: [usageOf('acme', 'eu-1')] });
    await paris.ledger.append({ events: [usageOf('acme', 'eu-2')] });
    const usage = () => received.events.filter((one) => one.includes('usage')).length;
    await expect.poll(usage, WITHIN).toBe(2);
    const offboarded = () => received.events.filter((one) => one.includes('offboarded')).length;
    const isAcknowledged = async (meter: typeof berlin) =>
      (await meter.hubRecords('hub/departed/')) === 1 &&
      (await meter.hubRecords('delivery/webhook/offboard/')) === 0;

    await berlin.setTenants();
    await berlin.leave(ACME);
    await expect.poll(() => isAcknowledged(berlin), WITHIN).toBe(true);
    expect(offboarded()).toBe(0);
    await paris.setTenants();
    await paris.leave(ACME);
    await expect.poll(offboarded, WITHIN).toBe(1);
    await expect.poll(() => isAcknowledged(paris), WITHIN).toBe(true);
  }, 90_000);
});

describe('a hub over two databases', () => {
  test('reads both, and refuses a stream whose REGION another database has, with both named', async () => {
    const [one, other] = [
      await used.server().createDatabase(),
      await used.server().createDatabase(),
    ];
    const berlin = await started(playMeter(one, { source: 'berlin', region: 'eu-1' }));
    await started(playMeter(other, { source: 'paris', region: 'eu-1' }));
    const rome = await started(playMeter(other, { source: 'rome', region: 'eu-3' }));
    await berlin.ledger.append({ events: [usageOf('acme', 'eu-1')] });
    await rome.ledger.append({ events: [usageOf('acme', 'eu-3')] });
    const hub = await started(startHub([one, other]));
    await expect
      .poll(async () => (await hub.get(`/api/v1/usage?${RANGE}`)).json, WITHIN)
      .toMatchObject({ events: 2 });
    expect(await hub.get('/api/v1/fleet')).toMatchObject({
      json: {
        streams: [
          { cluster: 'berlin' },
          { cluster: 'rome' },
          { cluster: 'paris', problem: expect.stringMatching(/eu-1.*paris.*berlin/) },
        ],
      },
    });
  }, 60_000);
});
