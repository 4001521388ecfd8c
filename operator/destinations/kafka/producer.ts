import { murmur2, ProduceAcks, Producer } from '@platformatic/kafka';
import type { LookupFunction } from 'node:net';
import { backoffMs } from '../../model/backoff.ts';
import { guardConnections } from './guarded-connections.ts';
import { createLogin } from './login.ts';
import type { KafkaSettings } from './settings.ts';

const CLIENT_ID = 'meterfeed';
const LARGEST_INT32 = 0x7fffffff;
const CONNECT_MS = 5_000;
/** The time for all in-sync replicas to have a batch; longer than the leader waits for them. */
const REPLICATION_MS = 10_000;
const REQUEST_MS = 15_000;
const METADATA_AGE_MS = 30_000;
/** Outlasts the election of leaders: the cluster misses a dead broker after nine seconds. */
const RETRIES = 24;
const RETRY = { baseMs: 200, capMs: 2_000, random: () => 1 };

/**
 * Returns an idempotent producer that waits for all in-sync replicas. Brokers recognise a repeated
 * batch by its number (https://kafka.apache.org/documentation/#producerconfigs_enable.idempotence).
 *
 * `lookup` must refuse names that resolve to forbidden addresses. `onFailure` receives each failure
 * before the client's next attempt, and each refused answer.
 */
export function createProducer(
  { brokers, tls, ca, sasl }: KafkaSettings,
  lookup: LookupFunction,
  onFailure: (error: unknown) => void,
): Producer {
  const producer: Producer = new Producer({
    clientId: CLIENT_ID,
    bootstrapBrokers: brokers.map(({ host, port }) => ({ host, port })),
    idempotent: true,
    acks: ProduceAcks.ALL,
    autocreateTopics: false,
    connectTimeout: CONNECT_MS,
    requestTimeout: REQUEST_MS,
    timeout: REPLICATION_MS,
    metadataMaxAge: METADATA_AGE_MS,
    retries: RETRIES,
    retryDelay: (_client, _operation, attempt, _retries, error) => {
      onFailure(error);
      return backoffMs(attempt, RETRY);
    },
    ...(tls && {
      tls: { lookup, ...(ca !== undefined && { ca: ca.reveal() }) },
      tlsServerName: true,
    }),
    ...(sasl !== undefined && {
      sasl: {
        mechanism: sasl.mechanism,
        authenticate: createLogin(sasl),
      },
    }),
  });
  guardConnections(producer.connections, lookup, tls, onFailure);
  return producer;
}

/** Returns the partition of a key among `count`, like Kafka's own default partitioner. */
export function partitionOf(key: Buffer, count: number): number {
  return (murmur2(key) & LARGEST_INT32) % count;
}
