import { Reader, readRecordsBatch, Writer } from '@platformatic/kafka';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { BrokerAddress } from '../broker-address.ts';

/** A written record, with the attributes of binary mode among its headers. */
export interface WrittenRecord {
  readonly topic: string;
  readonly partition: number;
  readonly key: string;
  readonly value: string;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * The treatment of a batch: taken, taken with a lost answer, or refused with an error of Kafka's
 * protocol (https://kafka.apache.org/protocol#protocol_error_codes).
 */
export type BatchAnswer = 'taken' | 'lost answer' | number;

/** A single broker for tests. It recognises retries by their numbers, like a real one. */
export interface FakeBroker {
  readonly address: BrokerAddress;
  /** The records of its topics, in order. */
  readonly records: readonly WrittenRecord[];
  readonly connections: number;
  /** Logins as they arrived, such as `PLAIN \0user\0password`. */
  readonly logins: readonly string[];
  close(): Promise<void>;
}

export interface FakeBrokerOptions {
  readonly partitions?: number;
  /** Topics that it lists beside the requested ones. */
  readonly otherTopics?: readonly string[];
  /** Answers to the batches, one after the other; then `taken`. */
  readonly answers?: readonly BatchAnswer[];
  /** Answers a batch before `answers` are used; undefined leaves it to them. */
  readonly answer?: (records: readonly WrittenRecord[]) => BatchAnswer | undefined;
  /** The broker that it names as leader of its partitions, in place of itself. */
  readonly leader?: BrokerAddress;
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Answers messages of SCRAM logins; undefined refuses the login. Without it all are refused. */
  readonly scram?: (message: string) => string | undefined;
  /** Replaces the answer to a call; its length is added afterwards. */
  readonly tamper?: (call: number, answer: Buffer) => Buffer;
  /** The error of a refused login. Other mechanisms get UNSUPPORTED_SASL_MECHANISM. */
  readonly loginError?: number;
}

const TOPIC = 'usage';
const UNKNOWN_TOPIC = 3;
const UNSUPPORTED_MECHANISM = 33;
const LOGIN_REFUSED = 58;
const SCRAM: readonly string[] = ['SCRAM-SHA-256', 'SCRAM-SHA-512'];
const PRODUCE = 0;
const METADATA = 3;
const SASL_HANDSHAKE = 17;
const API_VERSIONS = 18;
const INIT_PRODUCER_ID = 22;
const SASL_AUTHENTICATE = 36;
/** The only supported version of each call. */
const VERSIONS: readonly (readonly [call: number, version: number])[] = [
  [PRODUCE, 11],
  [METADATA, 12],
  [SASL_HANDSHAKE, 1],
  [API_VERSIONS, 3],
  [INIT_PRODUCER_ID, 5],
  [SASL_AUTHENTICATE, 0],
];
/** Calls whose headers may have tagged fields; answers of API_VERSIONS never do. */
const FLEXIBLE = new Set([PRODUCE, METADATA, INIT_PRODUCER_ID]);

export async function startFakeBroker(options: FakeBrokerOptions = {}): Promise<FakeBroker> {
  const broker = new OneBroker(options);
  await broker.listen();
  return broker;
}

class OneBroker implements FakeBroker {
  readonly records: WrittenRecord[] = [];
  readonly logins: string[] = [];
  connections = 0;
  readonly #options: FakeBrokerOptions;
  readonly #answers: BatchAnswer[];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Batches by producer, partition and first number. */
  readonly #known = new Set<string>();
  #producers = 0;
  #mechanism = '';

  constructor(options: FakeBrokerOptions) {
    this.#options = options;
    this.#answers = [...(options.answers ?? [])];
    const serve = (socket: Socket): void => this.#serve(socket);
    this.#server =
      options.tls === undefined ? createServer(serve) : createTlsServer(options.tls, serve);
  }

  get address(): BrokerAddress {
    const { port } = this.#server.address() as AddressInfo;
    return { host: '127.0.0.1', port };
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(socket: Socket): void {
    this.connections += 1;
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => undefined);
    let received = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      while (received.length >= 4 && received.length >= 4 + received.readInt32BE()) {
        const end = 4 + received.readInt32BE();
        const call = received.readInt16BE(4);
        const answer = this.#answerTo(Buffer.from(received.subarray(4, end)));
        received = received.subarray(end);
        const bytes = answer?.prependLength().buffer;
        if (bytes === undefined) socket.destroy();
        else socket.write(this.#options.tamper?.(call, bytes) ?? bytes);
      }
    });
  }

  /** A client that got false versions sends requests that this broker cannot read. */
  #answerTo(request: Buffer): Writer | undefined {
    try {
      return this.#answer(Reader.from(request));
    } catch (error) {
      if (this.#options.tamper === undefined) throw error;
      return undefined;
    }
  }

  /** Undefined closes the connection. */
  #answer(request: Reader): Writer | undefined {
    const call = request.readInt16();
    const version = request.readInt16();
    const answer = Writer.create().appendInt32(request.readInt32());
    request.readNullableString(false);
    if (FLEXIBLE.has(call)) {
      request.readTaggedFields();
      answer.appendTaggedFields();
    }
    if (call === API_VERSIONS) return versions(answer, version);
    if (call === METADATA) return this.#metadata(request, answer);
    if (call === PRODUCE) return this.#produce(request, answer);
    if (call === SASL_HANDSHAKE) {
      this.#mechanism = request.readString(false);
      const known = ['PLAIN', ...(this.#options.scram === undefined ? [] : SCRAM)];
      return answer
        .appendInt16(known.includes(this.#mechanism) ? 0 : UNSUPPORTED_MECHANISM)
        .appendArray(known, (writer, name) => void writer.appendString(name, false), false, false);
    }
    if (call === SASL_AUTHENTICATE) {
      const message = request.readBytes(false).toString();
      this.logins.push(`${this.#mechanism} ${message}`);
      const stated = SCRAM.includes(this.#mechanism) ? this.#options.scram?.(message) : '';
      const error = stated === undefined ? LOGIN_REFUSED : (this.#options.loginError ?? 0);
      return answer
        .appendInt16(error)
        .appendString(null, false)
        .appendBytes(Buffer.from(stated ?? ''), false);
    }
    this.#producers += 1;
    const id = BigInt(this.#producers);
    return answer.appendInt32(0).appendInt16(0).appendInt64(id).appendInt16(0).appendTaggedFields();
  }

  #metadata(request: Reader, answer: Writer): Writer {
    const topics = request.readArray((reader) => {
      reader.readUUID();
      return reader.readString();
    });
    const { host, port } = this.#options.leader ?? this.address;
    const numbers = Array.from({ length: this.#options.partitions ?? 1 }, (_, index) => index);
    const replicas = (writer: Writer): Writer =>
      writer.appendArray([1], (inner, id) => void inner.appendInt32(id), true, false);
    return answer
      .appendInt32(0)
      .appendArray([1], (writer, id) => {
        writer.appendInt32(id).appendString(host).appendInt32(port).appendString(null);
      })
      .appendString('fake')
      .appendInt32(1)
      .appendArray([...topics, ...(this.#options.otherTopics ?? [])], (writer, topic) => {
        const isKnown = topic === TOPIC || !topics.includes(topic);
        writer
          .appendInt16(isKnown ? 0 : UNKNOWN_TOPIC)
          .appendString(topic)
          .appendUUID(null);
        writer.appendBoolean(false).appendArray(isKnown ? numbers : [], (inner, partition) => {
          inner.appendInt16(0).appendInt32(partition).appendInt32(1).appendInt32(0);
          replicas(replicas(inner)).appendArray([], () => undefined, true, false);
        });
        writer.appendInt32(0);
      })
      .appendTaggedFields();
  }

  #produce(request: Reader, answer: Writer): Writer | undefined {
    request.readNullableString();
    const acks = request.readInt16();
    if (acks !== -1) throw new Error(`acks: ${acks}`);
    request.readInt32();
    let lost = false;
    const topics = request.readArray((reader) => ({
      topic: reader.readString(),
      partitions: reader.readArray((inner) => {
        const partition = inner.readInt32();
        const outcome = this.#take(partition, inner.readBytes());
        lost ||= outcome === 'lost answer';
        return { partition, error: typeof outcome === 'number' ? outcome : 0 };
      }),
    }));
    if (lost) return undefined;
    return answer
      .appendArray(topics, (writer, { topic, partitions }) => {
        writer.appendString(topic).appendArray(partitions, (inner, { partition, error }) => {
          inner.appendInt32(partition).appendInt16(error).appendInt64(0n).appendInt64(-1n);
          inner
            .appendInt64(0n)
            .appendArray([], () => undefined)
            .appendString(null);
        });
      })
      .appendInt32(0)
      .appendTaggedFields();
  }

  #take(partition: number, bytes: Buffer): BatchAnswer {
    const batch = readRecordsBatch(Reader.from(bytes));
    const records = batch.records.map(({ key, value, headers }) => ({
      topic: TOPIC,
      partition,
      key: key?.toString() ?? '',
      value: value?.toString() ?? '',
      headers: Object.fromEntries(headers.map(([name, text]) => [String(name), String(text)])),
    }));
    const answer = this.#options.answer?.(records) ?? this.#answers.shift() ?? 'taken';
    if (typeof answer === 'number') return answer;
    const number = `${batch.producerId}/${partition}/${batch.firstSequence}`;
    if (!this.#known.has(number)) this.records.push(...records);
    this.#known.add(number);
    return answer;
  }
}

function versions(answer: Writer, version: number): Writer {
  const compact = version === 3;
  answer.appendInt16(0).appendArray(
    [...VERSIONS],
    (writer, [call, spoken]) => {
      writer
        .appendInt16(call)
        .appendInt16(call === API_VERSIONS ? 1 : spoken)
        .appendInt16(spoken);
    },
    compact,
    compact,
  );
  answer.appendInt32(0);
  return compact ? answer.appendTaggedFields() : answer;
}
