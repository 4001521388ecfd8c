import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CloudEvent, Kafka as KafkaBinding, type KafkaMessage } from 'cloudevents';
import { afterEach, describe, expect, test } from 'vitest';
import { CERTIFICATE_FILES, ensureCertificates } from '../../../e2e/control-plane/certificates.ts';
import { type Environment, loadEnvironment } from '../../settings/load-environment.ts';
import { TEST_WINDOW_START, testEvent, testWindow } from '../../ledger/testing/events.ts';
import { COLLECTOR_METRICS } from '../../model/catalog.ts';
import { encodeEvent } from '../../model/event.ts';
import { Secret } from '../../model/secret.ts';
import type { Destination } from '../destination.ts';
import { createDestinationRegistry, DESTINATIONS } from '../registry.ts';
import { createTestContext, testTenant } from '../testing/context.ts';
import { Kafka } from './kafka.ts';
import type { KafkaSettings } from './settings.ts';
import {
  type FakeBroker,
  type FakeBrokerOptions,
  startFakeBroker,
  type WrittenRecord,
} from './testing/fake-broker.ts';

const { signal } = new AbortController();
const DELIVERED = { kind: 'delivered' };
const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function broker(options: FakeBrokerOptions = {}): Promise<FakeBroker> {
  const started = await startFakeBroker(options);
  closers.push(() => started.close());
  return started;
}

function stored<T extends Destination>(destination: T): T {
  closers.push(() => destination.close());
  return destination;
}

function kafkaAt(
  { address }: Pick<FakeBroker, 'address'>,
  change: Partial<KafkaSettings> = {},
  context = createTestContext(),
): Kafka {
  const settings: KafkaSettings = {
    brokers: [address],
    topic: 'usage',
    contentMode: 'structured',
    tls: false,
    source: 'control-plane',
    ...change,
  };
  return stored(new Kafka('kafka', settings, context));
}

/** Reads a record with the CloudEvents SDK. */
function eventOf({ key, value, headers }: WrittenRecord): CloudEvent<unknown> {
  const message: KafkaMessage = { key, value, body: value, headers, timestamp: '' };
  const read = KafkaBinding.toEvent<unknown>(message);
  return [read].flat()[0] as CloudEvent<unknown>;
}

/** Creates the destination from variables. */
function fromVariables(environment: Environment): Destination {
  const loaded = loadEnvironment({ ADAPTERS: 'kafka', ...environment }, DESTINATIONS);
  if (loaded.kind === 'invalid') throw new Error(loaded.problems.join('\n'));
  const [settings] = loaded.settings.billing.destinations;
  if (settings === undefined) throw new Error('no destination');
  const made = createDestinationRegistry(createTestContext())(settings);
  if (made.kind === 'invalid') throw new Error(made.reason);
  return stored(made.destination);
}

async function certificates() {
  const directory = await mkdtemp(join(tmpdir(), 'kafka-tls-'));
  closers.push(() => rm(directory, { recursive: true }));
  await ensureCertificates(directory, Date.now());
  const read = (name: string) => readFile(join(directory, name), 'utf8');
  const cert = await read(CERTIFICATE_FILES.serving);
  const key = await read(CERTIFICATE_FILES.servingKey);
  return { cert, key, authority: await read(CERTIFICATE_FILES.authority) };
}

describe('a record', () => {
  test.each(['structured', 'binary'] as const)(
    'in %s mode is read by the CloudEvents SDK, with the event as it is in the ledger',
    async (contentMode) => {
      const target = await broker();
      const events = [...testWindow(TEST_WINDOW_START, 3), testEvent({ quantity: '0.000000001' })];
      const outcomes = await kafkaAt(target, { contentMode }).send(events, signal);
      expect(outcomes).toStrictEqual(events.map(() => DELIVERED));
      expect(target.records.map((record) => eventOf(record).toJSON())).toEqual(
        events.map((event) => ({
          specversion: '1.0',
          id: event.id,
          source: 'control-plane',
          type: `io.meterfeed.usage.v1.${event.metric}`,
          subject: event.tenant,
          // The binding's name for the key of the record.
          partitionkey: event.tenant,
          time: '2026-11-21T09:00:00.000Z',
          datacontenttype: 'application/json',
          data: JSON.parse(encodeEvent(event)) as unknown,
        })),
      );
      expect(target.records.map(({ key }) => key)).toEqual(events.map(({ tenant }) => tenant));
      expect(target.records.at(-1)?.value).toContain('"quantity":0.000000001}');
    },
  );

  test('of a tenant lands in one partition, the one that Kafka’s own clients choose, in order', async () => {
    const target = await broker({ partitions: 7 });
    const events = Array.from({ length: 4 }, (_, window) =>
      testWindow(TEST_WINDOW_START + window * 60_000, 20),
    ).flat();
    await kafkaAt(target).send(events, signal);
    const byKey = Map.groupBy(target.records, ({ key }) => key);
    expect(byKey.size).toBe(20);
    for (const [key, records] of byKey) {
      expect(new Set(records.map(({ partition }) => partition)).size).toBe(1);
      const ids = records.map((record) => eventOf(record).id);
      expect(ids).toEqual(events.filter(({ tenant }) => tenant === key).map(({ id }) => id));
    }
    // The answers of org.apache.kafka.clients.producer.internals.BuiltInPartitioner for these keys
    // and 7.
    const chosen = (index: number) => byKey.get(`tenant-vcluster-${index}-main`)?.[0]?.partition;
    expect([0, 1, 2, 3].map(chosen)).toEqual(JAVA_PARTITIONS);
  });
});

/** Printed by Apache Kafka 4.1's own `Utils.toPositive(Utils.murmur2(key)) % 7`. */
const JAVA_PARTITIONS = [3, 6, 0, 2];

describe('what goes wrong', () => {
  test('a lost answer does not write a batch twice', async () => {
    const target = await broker({ answers: ['lost answer', 'lost answer'] });
    const events = testWindow(TEST_WINDOW_START, 5);
    const outcomes = await kafkaAt(target).send(events, signal);
    expect(outcomes).toStrictEqual(events.map(() => DELIVERED));
    expect(target.records).toHaveLength(5);
    expect(target.connections).toBeGreaterThan(1);
  });

  test('a broker that has lost its replicas for a moment is tried again', async () => {
    const target = await broker({ answers: [19, 20, 7] });
    const [outcome] = await kafkaAt(target).send([testEvent()], signal);
    expect(outcome).toStrictEqual(DELIVERED);
    expect(target.records).toHaveLength(1);
  });

  test.each([
    [29, 'TOPIC_AUTHORIZATION_FAILED: allow the user to write to and describe the topic'],
    [31, 'CLUSTER_AUTHORIZATION_FAILED: allow the user IdempotentWrite on the cluster'],
  ])('error %i stops the destination, which goes on when it is fixed', async (code, reason) => {
    const target = await broker({ answers: [code] });
    const kafka = kafkaAt(target);
    expect(await kafka.send([testEvent()], signal)).toStrictEqual([
      { kind: 'blocked', reason: `Kafka topic usage: ${reason}` },
    ]);
    expect(await kafka.send([testEvent()], signal)).toStrictEqual([DELIVERED]);
    expect(target.records).toHaveLength(1);
  });

  test('a batch that is too large is split, and later ones are smaller', async () => {
    const target = await broker({ answers: [10] });
    const kafka = kafkaAt(target);
    const before = kafka.limits.batchBytes?.most;
    const events = testWindow(TEST_WINDOW_START, 100);
    const outcomes = await kafka.send(events, signal);
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['split']));
    expect(kafka.limits.batchBytes?.most).toBeLessThan(before ?? 0);
    expect(target.records).toHaveLength(0);
  });

  test('one partition that refuses delays no other', async () => {
    const target = await broker({
      partitions: 4,
      answer: ([first]) => (first?.partition === 2 ? 87 : 'taken'),
    });
    const events = testWindow(TEST_WINDOW_START, 40);
    const outcomes = await kafkaAt(target).send(events, signal);
    const refused = events.filter((_, index) => outcomes[index]?.kind === 'split');
    const written = new Set(target.records.map(({ key }) => key));
    expect(refused.length).toBeGreaterThan(0);
    expect(target.records.length + refused.length).toBe(40);
    expect(refused.filter(({ tenant }) => written.has(tenant))).toEqual([]);
  });

  test('a broker that names a metadata address as the leader is not followed there', async () => {
    const leader = { host: '169.254.169.254', port: 9092 };
    const target = await broker({ leader });
    expect(await kafkaAt(target).send([testEvent()], signal)).toStrictEqual([
      {
        kind: 'blocked',
        reason:
          'Kafka topic usage: address not allowed: link-local or cloud metadata: "169.254.169.254"',
      },
    ]);
  });

  test('nobody waits for it once the feeder stops', async () => {
    const target = await broker({ answer: () => 19 });
    const stopping = new AbortController();
    const sent = kafkaAt(target).send([testEvent()], stopping.signal);
    stopping.abort();
    expect(await sent).toStrictEqual([{ kind: 'retry', reason: 'Kafka topic usage: stopped' }]);
  });

  test('PLAIN without TLS is refused before anything is dialled', async () => {
    const sasl = { mechanism: 'PLAIN', username: 'u', password: new Secret('canary') } as const;
    const target = await broker();
    expect(() => kafkaAt(target, { sasl })).toThrow(
      'PLAIN without TLS sends the password readable',
    );
    expect(target.connections).toBe(0);
  });

  test('a login that is refused holds, and nothing says the password', async () => {
    const tls = await certificates();
    const target = await broker({ tls, loginError: 58 });
    const password = new Secret('canary-password');
    const context = createTestContext();
    const kafka = kafkaAt(
      target,
      {
        tls: true,
        ca: new Secret(tls.authority),
        sasl: { mechanism: 'PLAIN', username: 'meterfeed', password },
      },
      context,
    );
    const outcomes = await kafka.send([testEvent()], signal);
    expect(outcomes).toMatchObject([{ kind: 'blocked' }]);
    expect(JSON.stringify([outcomes, context.logger.lines])).not.toContain('canary');
  });
});

describe('tenants and the catalogue', () => {
  test('are published, keyed by tenant, the same at each attempt', async () => {
    const target = await broker();
    const kafka = kafkaAt(target);
    const metrics = COLLECTOR_METRICS;
    expect(await kafka.bootstrap(metrics, signal)).toStrictEqual({ kind: 'done' });
    for (const _ of [1, 2]) await kafka.customers.provision(testTenant({ id: 'acme' }), signal);
    const notice = { id: 'a1', tenant: 'acme', percent: 100, amount: '5', at: 0 };
    const counts = { kind: 'metric', metric: 'tenant_gpu_hours' } as const;
    await kafka.notices.notify({ ...notice, counts, period: 'prepaid' }, signal);
    expect(await kafka.customers.offboard(testTenant({ id: 'acme' }), signal)).toStrictEqual({
      kind: 'done',
    });
    const reported = target.records.map((record) => [record.key, eventOf(record).type]);
    expect(reported).toEqual([
      ['control-plane', 'io.meterfeed.catalog.v1'],
      ['acme', 'io.meterfeed.tenant.v1'],
      ['acme', 'io.meterfeed.tenant.v1'],
      ['acme', 'io.meterfeed.budget.v1.threshold'],
      ['acme', 'io.meterfeed.tenant.offboarded.v1'],
    ]);
    const [, first, second] = target.records.map((record) => eventOf(record).id);
    expect(second).toBe(first);
  });
});

describe('a variable', () => {
  test('KAFKA_BROKERS, KAFKA_TOPIC, KAFKA_CONTENT_MODE and KAFKA_TLS: usage goes there, in that form', async () => {
    const target = await broker();
    const { host, port } = target.address;
    const common = { KAFKA_BROKERS: `${host}:${port}`, KAFKA_TOPIC: 'usage', KAFKA_TLS: 'false' };
    const destination = fromVariables({ ...common, KAFKA_CONTENT_MODE: 'binary' });
    expect(await destination.send([testEvent()], signal)).toStrictEqual([DELIVERED]);
    expect(target.records[0]?.headers).toMatchObject({ ce_source: 'control-plane' });
  });

  test('KAFKA_SASL_MECHANISM, KAFKA_USERNAME and KAFKA_PASSWORD: they log in, by default with SCRAM', async () => {
    const target = await broker();
    const { host, port } = target.address;
    const login = { KAFKA_USERNAME: 'meterfeed', KAFKA_PASSWORD: 'p' };
    const common = { KAFKA_BROKERS: `${host}:${port}`, KAFKA_TOPIC: 'usage', KAFKA_TLS: 'false' };
    const scram = fromVariables({ ...common, ...login });
    // The broker of the test supports only PLAIN.
    expect(await scram.send([testEvent()], signal)).toMatchObject([
      { kind: 'blocked', reason: expect.stringContaining('UNSUPPORTED_SASL_MECHANISM') as string },
    ]);
    const tls = await certificates();
    const encrypted = await broker({ tls });
    const plain = kafkaAt(encrypted, {
      tls: true,
      ca: new Secret(tls.authority),
      sasl: { mechanism: 'PLAIN', username: 'meterfeed', password: new Secret('p') },
    });
    expect(await plain.send([testEvent()], signal)).toStrictEqual([DELIVERED]);
    expect(encrypted.logins[0]).toBe('PLAIN \0meterfeed\0p');
    const named = { ...common, ...login, KAFKA_SASL_MECHANISM: 'PLAIN' };
    expect(() => fromVariables(named)).toThrow('PLAIN without TLS');
  });

  test('one of a login alone is not enough', () => {
    const common = { KAFKA_BROKERS: 'k:9092', KAFKA_TOPIC: 'usage' };
    expect(() => fromVariables({ ...common, KAFKA_USERNAME: 'u' })).toThrow(
      'KAFKA_PASSWORD: missing, and required by the destination: "kafka"',
    );
    expect(() => fromVariables({ ...common, KAFKA_PASSWORD: 'p' })).toThrow('KAFKA_USERNAME');
    expect(() => fromVariables({ KAFKA_BROKERS: 'k:9092' })).toThrow('KAFKA_TOPIC');
  });
});
