import type { LookupFunction } from 'node:net';
import { BadAnswerError } from './broker-answers.ts';
import { outcomeOf, type WriteOutcome } from './outcome.ts';
import type { KafkaProducer } from './producer.ts';
import type { KafkaRecord } from './record.ts';
import type { KafkaSettings } from './settings.ts';

/** For all that belongs to one call: longer than electing new leaders takes. */
const WRITE_MS = 60_000;
const DELIVERED: WriteOutcome = { kind: 'delivered' };

/** Writes records to the end of a topic. Connects with the first record. */
export class TopicWriter {
  readonly #settings: KafkaSettings;
  readonly #lookup: LookupFunction;
  #connected: Connected | undefined;

  constructor(settings: KafkaSettings, lookup: LookupFunction) {
    this.#settings = settings;
    this.#lookup = lookup;
  }

  /** `outcomes[i]` belongs to `records[i]`. Records of a key are in order. Never throws. */
  async append(
    records: readonly KafkaRecord[],
    signal: AbortSignal,
  ): Promise<readonly WriteOutcome[]> {
    // The client is loaded only where somebody writes to a topic.
    const client = await import('./producer.ts');
    const connected = (this.#connected ??= this.#connect(client));
    const work = this.#write(connected.producer, records, client);
    const ended = await endOf(work, connected.held, signal);
    const outcomes =
      ended.kind === 'done' ? ended.outcomes : records.map(() => this.#unwritten(ended));
    // One that has failed is not asked again: what it numbered may be there or not, and the next one
    // numbers anew. What a call left unfinished ends with its connections.
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
    const listeners: HeldListeners = new Set();
    const onFailure = (error: unknown): void => {
      const outcome = outcomeOf(error, this.#settings.topic);
      if (outcome.kind === 'hold') for (const report of listeners) report(outcome);
    };
    return { producer: createProducer(this.#settings, this.#lookup, onFailure), held: listeners };
  }

  #unwritten(ended: Exclude<End, { kind: 'done' }>): WriteOutcome {
    if (ended.kind === 'hold') return ended;
    return { kind: 'retry', reason: `Kafka topic ${this.#settings.topic}: ${ended.reason}` };
  }

  async #write(
    producer: KafkaProducer,
    records: readonly KafkaRecord[],
    { partitionOf }: Client,
  ): Promise<readonly WriteOutcome[]> {
    const { topic } = this.#settings;
    try {
      const { topics } = await producer.metadata({ topics: [topic] });
      if ((producer.currentMetadata?.topics.size ?? 0) > 1) throw new BadAnswerError(OTHER_TOPICS);
      const count = topics.get(topic)?.partitionsCount ?? 0;
      if (count === 0) return records.map(() => this.#unwritten(NOT_SERVED));
      const places = records.map((record, index) => ({ record, index }));
      const byPartition = Map.groupBy(places, ({ record }) => partitionOf(record.key, count));
      const outcomes = new Map<number, WriteOutcome>();
      // One request for each partition: its leader may move while the others stay.
      const writes = [...byPartition].map(async ([partition, held]) => {
        const outcome = await this.#writeTo(
          producer,
          partition,
          held.map(({ record }) => record),
        );
        for (const { index } of held) outcomes.set(index, outcome);
      });
      await Promise.all(writes);
      return records.map((_, index) => outcomes.get(index) ?? UNANSWERED);
    } catch (error) {
      const outcome = outcomeOf(error, topic);
      return records.map(() => outcome);
    }
  }

  async #writeTo(
    producer: KafkaProducer,
    partition: number,
    records: readonly KafkaRecord[],
  ): Promise<WriteOutcome> {
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

/** The client keeps all topics that it was ever told of. */
const OTHER_TOPICS = 'metadata of topics that were not requested';
const NOT_SERVED = { kind: 'unfinished', reason: 'no partitions are told of' } as const;
const UNANSWERED: WriteOutcome = { kind: 'retry', reason: 'no outcome for a record' };

/** A client, and who is told of what it would try in vain for a minute. */
interface Connected {
  readonly producer: KafkaProducer;
  readonly held: HeldListeners;
}

type Client = typeof import('./producer.ts');
type HeldOutcome = Extract<WriteOutcome, { kind: 'hold' }>;
type HeldListeners = Set<(outcome: HeldOutcome) => void>;

type End =
  | { readonly kind: 'done'; readonly outcomes: readonly WriteOutcome[] }
  | { readonly kind: 'unfinished'; readonly reason: string }
  | HeldOutcome;

/** What ends a call: its work, which must not throw, a failure that nobody need wait for, time or its caller. */
async function endOf(
  work: Promise<readonly WriteOutcome[]>,
  held: HeldListeners,
  signal: AbortSignal,
): Promise<End> {
  const late = AbortSignal.any([signal, AbortSignal.timeout(WRITE_MS)]);
  const { promise, resolve } = Promise.withResolvers<End>();
  const stop = (): void =>
    resolve({ kind: 'unfinished', reason: signal.aborted ? 'stopped' : 'timed out' });
  late.addEventListener('abort', stop, { once: true });
  if (late.aborted) stop();
  held.add(resolve);
  const done = work.then((outcomes): End => ({ kind: 'done', outcomes }));
  try {
    return await Promise.race([done, promise]);
  } finally {
    held.delete(resolve);
    late.removeEventListener('abort', stop);
  }
}

/** Ends connections at once: one to a broker that is away would wait for it to read what it was sent. */
async function closed(producer: KafkaProducer): Promise<void> {
  const connections = [...producer.connections];
  const closing = producer.close(true).catch(() => undefined);
  for (const [, { socket }] of connections) socket?.destroy();
  await closing;
}
