import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type CloudEvent, Kafka, type KafkaMessage } from 'cloudevents';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { encodeEvent } from '../../operator/model/event.ts';
import { Secret } from '../../operator/model/secret.ts';
import type { DestinationSettings } from '../../operator/settings/settings.ts';
import { openTestLedger } from '../../operator/ledger/testing/level-ledger.ts';
import { type KafkaCluster, type ReadRecord, startKafkaCluster } from '../kafka/cluster.ts';
import { kafkaSettings, type Load, startLoad } from '../kafka/load.ts';

/** Apache Kafka as released, three brokers of it, and its own consumer; nothing of it is ours. */
let cluster: KafkaCluster;
const closers: (() => Promise<unknown>)[] = [];
const PATIENCE_MS = 120_000;
const IS_REPORTED = /^io\.meterfeed\.(catalog|tenant)/;

beforeAll(async () => {
  cluster = await startKafkaCluster();
});

afterAll(async () => {
  for (const close of closers.toReversed()) await close();
  await cluster?.close();
});

async function load(settings: DestinationSettings): Promise<Load> {
  const directory = await mkdtemp(join(tmpdir(), 'kafka-ledger-'));
  const ledger = await openTestLedger(directory);
  const started = await startLoad(ledger, settings);
  closers.push(async () => {
    await started.stop();
    await ledger.close();
    await rm(directory, { recursive: true });
  });
  return started;
}

function usageOf(records: readonly ReadRecord[]): readonly (readonly [ReadRecord, CloudEvent])[] {
  return records.flatMap((record) => {
    const { key, value, headers } = record;
    const message: KafkaMessage = { key, value, body: value, headers, timestamp: '' };
    const read = Kafka.toEvent(message);
    const [event] = [read].flat();
    return event === undefined || IS_REPORTED.test(event.type)
      ? []
      : [[record, event as CloudEvent]];
  });
}

test('a broker is killed under load, comes back, and the next leader is killed: nothing is lost, each tenant in order, repeats by id', async () => {
  await cluster.createTopic('usage', ['--partitions', '6']);
  const running = await load(kafkaSettings(cluster.plain));
  const feed = async (windows: number): Promise<void> => {
    for (let window = 0; window < windows; window += 1) {
      await running.append(400);
      await delay(50);
    }
  };
  await feed(40);
  const first = await cluster.leaderOf('usage', 0);
  await Promise.all([feed(80), cluster.kill(first)]);
  await Promise.all([feed(40), cluster.restart(first)]);
  await running.drained(PATIENCE_MS);
  const second = await cluster.leaderOf('usage', 1);
  await Promise.all([feed(40), cluster.kill(second)]);
  await running.drained(PATIENCE_MS);
  await cluster.restart(second);

  const usage = usageOf(await cluster.read('usage'));
  const expected = new Map(running.events.map((event) => [event.id, encodeEvent(event)]));
  expect(expected.size).toBe(80_000);
  const stored = new Map<string, string>();
  const order = new Map<string, string[]>();
  const partitions = new Map<string, Set<number>>();
  for (const [{ key, value, partition }, { id }] of usage) {
    // A repeat says the same as the first.
    expect(stored.get(id) ?? value).toBe(value);
    partitions.set(key, (partitions.get(key) ?? new Set()).add(partition));
    if (stored.has(id)) continue;
    stored.set(id, value);
    order.set(key, [...(order.get(key) ?? []), id]);
  }
  // Counted first: where they differ, a list of all of them helps nobody.
  expect(stored.size).toBe(expected.size);
  const differing = [...expected].filter(([id, value]) => stored.get(id) !== value);
  expect(differing.slice(0, 3)).toEqual([]);
  const wanted = Map.groupBy(running.events, ({ tenant }) => tenant);
  for (const [tenant, events] of wanted) {
    expect(order.get(tenant)).toEqual(events.map(({ id }) => id));
    expect(partitions.get(tenant)?.size).toBe(1);
  }
  const repeats = usage.length - stored.size;
  const worst = Math.round(running.delays.reduce((most, each) => Math.max(most, each), 0));
  console.log(JSON.stringify({ events: usage.length, lost: 0, repeats, worst_delay_ms: worst }));
});

test.each([
  ['TLS and PLAIN', 'structured'],
  ['SCRAM', 'binary'],
] as const)('with %s real brokers take usage in %s mode', async (how, contentMode) => {
  const { login } = cluster;
  const topic = `usage-${contentMode}`;
  await cluster.createTopic(topic);
  const password = new Secret(login.password);
  const settings =
    how === 'SCRAM'
      ? kafkaSettings(cluster.scram, {
          sasl: { mechanism: 'SCRAM-SHA-512', username: login.username, password },
          contentMode,
          topic,
        })
      : kafkaSettings(cluster.encrypted, {
          sasl: { mechanism: 'PLAIN', username: login.username, password },
          tls: true,
          ca: new Secret(cluster.authority),
          contentMode,
          topic,
        });
  const running = await load(settings);
  await running.append(50);
  await running.drained(PATIENCE_MS);
  const usage = usageOf(await cluster.read(topic));
  expect(usage.map(([, { id }]) => id).toSorted()).toEqual(
    running.events.map(({ id }) => id).toSorted(),
  );
});

test.each([
  ['the brokers require TLS', () => kafkaSettings(cluster.encrypted)],
  ['the brokers do not use TLS', () => kafkaSettings(cluster.plain, { tls: true })],
])('%s, and that is reported at once', async (reason, settings) => {
  const running = await load(settings());
  await running.append(2);
  await expect
    .poll(() => running.delivery.status('kafka')?.blocked, { timeout: 10_000 })
    .toContain(reason);
});

test('with a wrong password nothing is sent, and the password is in no line', async () => {
  const password = new Secret('canary-wrong');
  const sasl = { mechanism: 'SCRAM-SHA-512', username: cluster.login.username, password } as const;
  const running = await load(kafkaSettings(cluster.scram, { sasl }));
  await running.append(2);
  await expect
    .poll(() => running.delivery.status('kafka')?.blocked, { timeout: 30_000 })
    .toContain('SASL_AUTHENTICATION_FAILED');
  expect(running.lines.join('\n')).not.toContain('canary');
});
