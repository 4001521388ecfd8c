import { murmur2, ProduceAcks, Producer } from '@platformatic/kafka';
import type { LookupFunction } from 'node:net';
import { backoffMs } from '../../model/backoff.ts';
import { guardConnections } from './guarded-connections.ts';
import { createLogin } from './login.ts';
import type { KafkaSettings } from './settings.ts';

const CLIENT_ID = 'meterfeed';
const LARGEST_INT32 = 0x7fffffff;
const CONNECT_MS = 5_000;
/** Until all replicas in sync have a batch; longer than the leader's own patience with them. */
const REPLICATION_MS = 10_000;
const REQUEST_MS = 15_000;
const METADATA_AGE_MS = 30_000;
/** Enough to live through the election of leaders: a broker that dies is missed after nine seconds. */
const RETRIES = 24;
const RETRY = { baseMs: 200, capMs: 2_000, random: () => 1 };

/** The part of the client's producer that is used. */
export type KafkaProducer = Producer;

/**
 * A producer that is idempotent: what it sends once more is in the topic once, as the brokers know it by its
 * number (https://kafka.apache.org/documentation/#producerconfigs_enable.idempotence), and it waits for all
 * replicas that are in sync. `lookup` must refuse names that lead where nothing may be dialled; `onFailure` is
 * called for each failure after which the client tries once more, and for each answer that is refused.
 */
export function createProducer(
  { brokers, tls, ca, sasl }: KafkaSettings,
  lookup: LookupFunction,
  onFailure: (error: unknown) => void,
): KafkaProducer {
  const producer: KafkaProducer = new Producer({
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

/** The partition of a key among `count`, as the default partitioner of Kafka's own clients has it. */
export function partitionOf(key: Buffer, count: number): number {
  return (murmur2(key) & LARGEST_INT32) % count;
}
