import type { Producer } from '@platformatic/kafka';
import type { LookupFunction } from 'node:net';
import { BadAnswerError } from './broker-answers.ts';
import { outcomeOf, type KafkaWriteOutcome } from './outcome.ts';
import type { KafkaRecord } from './record.ts';
import type { KafkaSettings } from './settings.ts';

/** The time limit of one call; longer than an election of leaders takes. */
const WRITE_MS = 60_000;
const DELIVERED: KafkaWriteOutcome = { kind: 'delivered' };

/** Writes records to the end of a topic. Connects with the first record. */
export class TopicWriter {
  readonly #settings: KafkaSettings;
  readonly #lookup: LookupFunction;
  #connected: Connected | undefined;

  constructor(settings: KafkaSettings, lookup: LookupFunction) {
    this.#settings = settings;
    this.#lookup = lookup;
  }

  /**
   * Appends records and returns an outcome for each. `outcomes[i]` belongs to `records[i]`. Records
   * of a key are in order. Never throws.
   */
  async append(
    records: readonly KafkaRecord[],
    signal: AbortSignal,
  ): Promise<readonly KafkaWriteOutcome[]> {
    // Load the client only where somebody writes to a topic.
    const client = await import('./producer.ts');
    const connected = (this.#connected ??= this.#connect(client));
    const work = this.#write(connected.producer, records, client);
    const ended = await endOf(work, connected.listeners, signal);
    const outcomes =
      ended.kind === 'done' ? ended.outcomes : records.map(() => this.#unwritten(ended));
    // Discard a producer that failed: the topic may have the batches that it numbered or not, and
    // the next producer starts new numbers. Closing its connections also ends unfinished work.
    if (outcomes.some(({ kind }) => kind !== 'delivered')) {
      if (this.#connected === connected) this.#connected = undefined;
      await closed(connected.producer);
    }
    return outcomes;
  }

  async close(): Promise<void> {
    const connected = this.#connected;
    this.#connected = undefined;
    if (connected !== undefined) await closed(connected.producer);
  }

  #connect({ createProducer }: Client): Connected {
    const listeners: BlockedListeners = new Set();
    const onFailure = (error: unknown): void => {
      const outcome = outcomeOf(error, this.#settings.topic);
      if (outcome.kind === 'blocked') for (const report of listeners) report(outcome);
    };
    return { producer: createProducer(this.#settings, this.#lookup, onFailure), listeners };
  }

  #unwritten(ended: Exclude<End, { kind: 'done' }>): KafkaWriteOutcome {
    if (ended.kind === 'blocked') return ended;
    return { kind: 'retry', reason: `Kafka topic ${this.#settings.topic}: ${ended.reason}` };
  }

  async #write(
    producer: Producer,
    records: readonly KafkaRecord[],
    { partitionOf }: Client,
  ): Promise<readonly KafkaWriteOutcome[]> {
    const { topic } = this.#settings;
    try {
      const { topics } = await producer.metadata({ topics: [topic] });
      if ((producer.currentMetadata?.topics.size ?? 0) > 1) throw new BadAnswerError(OTHER_TOPICS);
      const count = topics.get(topic)?.partitionsCount ?? 0;
      if (count === 0) return records.map(() => this.#unwritten(NOT_SERVED));
      const places = records.map((record, index) => ({ record, index }));
      const byPartition = Map.groupBy(places, ({ record }) => partitionOf(record.key, count));
      const outcomes = new Map<number, KafkaWriteOutcome>();
      // Send one request for each partition: its leader may move while the others stay.
      const writes = [...byPartition].map(async ([partition, members]) => {
        const outcome = await this.#writeTo(
          producer,
          partition,
          members.map(({ record }) => record),
        );
        for (const { index } of members) outcomes.set(index, outcome);
      });
      await Promise.all(writes);
      return records.map((_, index) => outcomes.get(index) ?? UNANSWERED);
    } catch (error) {
      const outcome = outcomeOf(error, topic);
      return records.map(() => outcome);
    }
  }

  async #writeTo(
    producer: Producer,
    partition: number,
    records: readonly KafkaRecord[],
  ): Promise<KafkaWriteOutcome> {
    const { topic } = this.#settings;
    const messages = records.map(({ key, value, headers }) => ({
      topic,
      partition,
      key,
      value,
      headers: new Map(headers),
    }));
    try {
      await producer.send({ messages });
      return DELIVERED;
    } catch (error) {
      return outcomeOf(error, topic);
    }
  }
}

/** The client's metadata keep every topic that a broker ever reported. */
const OTHER_TOPICS = 'metadata of topics that were not requested';
const NOT_SERVED = { kind: 'unfinished', reason: 'the brokers report no partitions' } as const;
const UNANSWERED: KafkaWriteOutcome = { kind: 'retry', reason: 'no outcome for a record' };

/** A client, and callers that learn at once of failures that the client retries for a minute. */
interface Connected {
  readonly producer: Producer;
  readonly listeners: BlockedListeners;
}

type Client = typeof import('./producer.ts');
type BlockedOutcome = Extract<KafkaWriteOutcome, { kind: 'blocked' }>;
type BlockedListeners = Set<(outcome: BlockedOutcome) => void>;

type End =
  | { readonly kind: 'done'; readonly outcomes: readonly KafkaWriteOutcome[] }
  | { readonly kind: 'unfinished'; readonly reason: string }
  | BlockedOutcome;

/**
 * Waits for the end of a call: its work, a failure that a person must fix, the time limit or the
 * caller's signal. `work` must not reject.
 */
async function endOf(
  work: Promise<readonly KafkaWriteOutcome[]>,
  listeners: BlockedListeners,
  signal: AbortSignal,
): Promise<End> {
  const late = AbortSignal.any([signal, AbortSignal.timeout(WRITE_MS)]);
  const { promise, resolve } = Promise.withResolvers<End>();
  const stop = (): void =>
    resolve({ kind: 'unfinished', reason: signal.aborted ? 'stopped' : 'timed out' });
  late.addEventListener('abort', stop, { once: true });
  if (late.aborted) stop();
  listeners.add(resolve);
  const done = work.then((outcomes): End => ({ kind: 'done', outcomes }));
  try {
    return await Promise.race([done, promise]);
  } finally {
    listeners.delete(resolve);
    late.removeEventListener('abort', stop);
  }
}

/** Ends connections at once. A normal close waits for an unreachable broker to read its data. */
async function closed(producer: Producer): Promise<void> {
  const connections = [...producer.connections];
  const closing = producer.close(true).catch(() => undefined);
  for (const [, { socket }] of connections) socket?.destroy();
  await closing;
}
