import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { DestinationSettings } from '../../operator/settings/settings.ts';
import { openTestLedger } from '../../operator/ledger/testing/level-ledger.ts';
import { startTestServer } from '../../operator/outbound/testing/test-server.ts';
import { startKafkaCluster } from '../kafka/cluster.ts';
import { kafkaSettings, startLoad } from '../kafka/load.ts';
import { findKafka } from '../kafka/programs.ts';
import { quantile } from './quantile.ts';

/**
 * Delivery to three brokers of Apache Kafka on this machine, and to a receiver of webhooks beside it: events a
 * second out of a full ledger, and the time from a window's append to its acknowledgement. Needs Java and Maven.
 */
const TENANTS = 1_000;
const BACKLOG_WINDOWS = 60;
const STEADY_WINDOWS = 60;
const PAUSE_MS = 250;
const PATIENCE_MS = 120_000;

const found = await findKafka();
if (found.kind === 'missing') {
  console.error(`not measured: ${found.reason}`);
  process.exit();
}
const cluster = await startKafkaCluster();
const receiver = await startTestServer((_, response) => void response.writeHead(202).end());
try {
  await cluster.createTopic('usage', ['--partitions', '12']);
  const webhook: DestinationSettings = {
    name: 'webhook',
    type: 'webhook',
    suspend: false,
    startFrom: 'earliest',
    options: { url: receiver.url, secrets: [], headers: new Map(), source: 'control-plane' },
  };
  for (const settings of [kafkaSettings(cluster.plain), webhook]) await measure(settings);
} finally {
  await receiver.close();
  await cluster.close();
}

async function measure(settings: DestinationSettings): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'bench-kafka-'));
  const ledger = await openTestLedger(directory);
  const load = await startLoad(ledger, settings);
  try {
    await load.append(TENANTS);
    await load.drained(PATIENCE_MS);
    const startedAt = performance.now();
    for (let window = 0; window < BACKLOG_WINDOWS; window += 1) await load.append(TENANTS);
    await load.drained(PATIENCE_MS);
    const seconds = (performance.now() - startedAt) / 1000;
    const before = load.delays.length;
    for (let window = 0; window < STEADY_WINDOWS; window += 1) {
      await load.append(TENANTS);
      await delay(PAUSE_MS);
    }
    await load.drained(PATIENCE_MS);
    const figure = {
      bench: `delivery to ${settings.type}`,
      events_per_second: Math.round((BACKLOG_WINDOWS * TENANTS) / seconds),
      delay_ms_p99: Math.round(quantile(load.delays.slice(before), 0.99)),
    };
    console.log(JSON.stringify(figure));
  } finally {
    await load.stop();
    await ledger.close();
    await rm(directory, { recursive: true });
  }
}
