import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CERTIFICATE_FILES, ensureCertificates } from '../control-plane/certificates.ts';
import { freePort, listens } from '../control-plane/ports.ts';
import { type ManagedProcess, startProcess } from '../processes/managed-process.ts';
import { findKafka } from './programs.ts';

/** Apache Kafka on this machine: three brokers that are controllers too, with a replica of everything each. */
export interface KafkaCluster {
  /** Addresses without encryption or login. */
  readonly plain: readonly string[];
  /** As {@link KafkaCluster.plain}, of listeners that tell clients the addresses of {@link KafkaClusterOptions.fronts}. */
  readonly behindFronts: readonly string[];
  /** With login by SCRAM, not encrypted. */
  readonly scram: readonly string[];
  /** With TLS and login by PLAIN; the authority is {@link KafkaCluster.authority}. */
  readonly encrypted: readonly string[];
  /** PEM. */
  readonly authority: string;
  readonly login: { readonly username: string; readonly password: string };
  createTopic(name: string, options?: readonly string[]): Promise<void>;
  /** What Kafka's own consumer reads of a topic from its beginning. */
  read(topic: string): Promise<readonly ReadRecord[]>;
  /** As a machine that loses power. */
  kill(broker: number): Promise<void>;
  restart(broker: number): Promise<void>;
  /** The broker that leads a partition. */
  leaderOf(topic: string, partition: number): Promise<number>;
  close(): Promise<void>;
}

export interface ReadRecord {
  readonly partition: number;
  readonly offset: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly key: string;
  readonly value: string;
}

export interface KafkaClusterOptions {
  /** Ports on this machine of what stands before each broker; clients that ask one of its listeners are sent there. */
  readonly fronts?: readonly number[];
}

const BROKERS = [1, 2, 3];
const LOGIN = { username: 'meterfeed', password: 'broker-password-5d1f' };
const START_MS = 90_000;
/** The tools wait for records that come no more. */
const IDLE_MS = 20_000;
const OUTPUT_BYTES = 512 * 1024 * 1024;

interface Ports {
  readonly plain: number;
  readonly behindFronts: number;
  readonly scram: number;
  readonly encrypted: number;
  readonly controller: number;
}

/** Throws where Apache Kafka is not to be had, with the reason. */
export async function startKafkaCluster({
  fronts = [],
}: KafkaClusterOptions = {}): Promise<KafkaCluster> {
  const found = await findKafka();
  if (found.kind === 'missing') throw new Error(found.reason);
  const directory = await mkdtemp(join(tmpdir(), 'meterfeed-kafka-'));
  const cluster = new LocalCluster(directory, found.classpath, fronts);
  try {
    await cluster.start();
    return cluster;
  } catch (error) {
    await cluster.close();
    throw error;
  }
}

class LocalCluster implements KafkaCluster {
  readonly login = LOGIN;
  readonly #directory: string;
  readonly #classpath: string;
  readonly #fronts: readonly number[];
  readonly #ports = new Map<number, Ports>();
  readonly #running = new Map<number, ManagedProcess>();
  authority = '';

  constructor(directory: string, classpath: string, fronts: readonly number[]) {
    this.#directory = directory;
    this.#classpath = classpath;
    this.#fronts = fronts;
  }

  get plain(): readonly string[] {
    return this.#addresses('plain');
  }

  get behindFronts(): readonly string[] {
    return this.#addresses('behindFronts');
  }

  get scram(): readonly string[] {
    return this.#addresses('scram');
  }

  get encrypted(): readonly string[] {
    return this.#addresses('encrypted');
  }

  async start(): Promise<void> {
    const tls = join(this.#directory, 'tls');
    await ensureCertificates(tls, Date.now());
    this.authority = await readFile(join(tls, CERTIFICATE_FILES.authority), 'utf8');
    for (const broker of BROKERS) {
      this.#ports.set(broker, {
        plain: await freePort(),
        behindFronts: await freePort(),
        scram: await freePort(),
        encrypted: await freePort(),
        controller: await freePort(),
      });
    }
    const id = Buffer.from(randomUUID().replaceAll('-', ''), 'hex').toString('base64url');
    const scram = `SCRAM-SHA-512=[name=${LOGIN.username},password=${LOGIN.password}]`;
    for (const broker of BROKERS) {
      await writeFile(this.#file(broker), await this.#properties(broker, tls));
      const format = ['format', '-t', id, '-c', this.#file(broker), '--add-scram', scram];
      await this.#run('kafka.tools.StorageTool', format);
    }
    await Promise.all(BROKERS.map((broker) => this.restart(broker)));
  }

  async createTopic(name: string, options: readonly string[] = []): Promise<void> {
    const topic = ['--create', '--topic', name, '--replication-factor', '3'];
    await this.#run('org.apache.kafka.tools.TopicCommand', [
      ...this.#bootstrap(),
      ...topic,
      ...options,
    ]);
  }

  async read(topic: string): Promise<readonly ReadRecord[]> {
    const shown = ['key', 'headers', 'partition', 'offset'].flatMap((part) => [
      '--property',
      `print.${part}=true`,
    ]);
    const wanted = ['--topic', topic, '--from-beginning', '--timeout-ms', String(IDLE_MS)];
    const output = await this.#run('org.apache.kafka.tools.consumer.ConsoleConsumer', [
      ...this.#bootstrap(),
      ...wanted,
      ...shown,
    ]);
    return output.split('\n').filter(Boolean).map(readLine);
  }

  async kill(broker: number): Promise<void> {
    const running = this.#running.get(broker);
    if (running === undefined) return;
    process.kill(running.pid, 'SIGKILL');
    await running.exited;
    this.#running.delete(broker);
  }

  async restart(broker: number): Promise<void> {
    const ports = this.#ports.get(broker);
    if (ports === undefined) throw new RangeError(`no such broker: ${broker}`);
    const running = await startProcess({
      name: `kafka ${broker}`,
      command: 'java',
      args: [...this.#java('-Xmx384m'), 'kafka.Kafka', this.#file(broker)],
      env: { PATH: process.env['PATH'] },
      logFile: join(this.#directory, `broker-${broker}.log`),
      pidFile: join(this.#directory, `broker-${broker}.pid`),
      ready: () => listens(ports.plain),
      startTimeoutMs: START_MS,
    });
    this.#running.set(broker, running);
  }

  async leaderOf(topic: string, partition: number): Promise<number> {
    const described = await this.#run('org.apache.kafka.tools.TopicCommand', [
      ...this.#bootstrap(),
      '--describe',
      '--topic',
      topic,
    ]);
    const [, leader] =
      new RegExp(`Partition: ${partition}\\s+Leader: (\\d+)`).exec(described) ?? [];
    return Number(leader);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((broker) => this.kill(broker)));
    await rm(this.#directory, { recursive: true, force: true });
  }

  #addresses(kind: keyof Ports): readonly string[] {
    return [...this.#ports.values()].map((ports) => `127.0.0.1:${ports[kind]}`);
  }

  #bootstrap(): readonly string[] {
    return ['--bootstrap-server', this.plain.join(',')];
  }

  #file(broker: number): string {
    return join(this.#directory, `broker-${broker}.properties`);
  }

  #java(memory: string): readonly string[] {
    const log = ['-Dorg.slf4j.simpleLogger.defaultLogLevel=warn'];
    return [memory, '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', ...log, '-cp', this.#classpath];
  }

  /** Runs one of Kafka's tools and gives what it prints. */
  async #run(program: string, args: readonly string[]): Promise<string> {
    const all = [...this.#java('-Xmx256m'), program, ...args];
    const { stdout } = await promisify(execFile)('java', all, { maxBuffer: OUTPUT_BYTES });
    return stdout;
  }

  async #properties(broker: number, tls: string): Promise<string> {
    const own = this.#ports.get(broker);
    const voters = [...this.#ports].map(([id, { controller }]) => `${id}@127.0.0.1:${controller}`);
    const front = this.#fronts[broker - 1] ?? own?.behindFronts;
    const fronted = (port: number | undefined): string => `FRONTED://127.0.0.1:${port}`;
    const listeners = [
      `PLAIN://127.0.0.1:${own?.plain}`,
      `SCRAM://127.0.0.1:${own?.scram}`,
      `ENCRYPTED://127.0.0.1:${own?.encrypted}`,
    ];
    const store = join(this.#directory, 'broker.pem');
    const [key, chain] = await Promise.all(
      [CERTIFICATE_FILES.servingKey, CERTIFICATE_FILES.serving].map((name) =>
        readFile(join(tls, name), 'utf8'),
      ),
    );
    await writeFile(store, `${key}\n${chain}`);
    const module = 'org.apache.kafka.common.security';
    const user = `user_${LOGIN.username}="${LOGIN.password}"`;
    return Object.entries({
      'process.roles': 'broker,controller',
      'node.id': String(broker),
      'controller.quorum.voters': voters.join(','),
      listeners: [
        ...listeners,
        fronted(own?.behindFronts),
        `CONTROLLER://127.0.0.1:${own?.controller}`,
      ].join(','),
      'advertised.listeners': [...listeners, fronted(front)].join(','),
      'listener.security.protocol.map':
        'PLAIN:PLAINTEXT,FRONTED:PLAINTEXT,SCRAM:SASL_PLAINTEXT,ENCRYPTED:SASL_SSL,CONTROLLER:PLAINTEXT',
      'inter.broker.listener.name': 'PLAIN',
      'controller.listener.names': 'CONTROLLER',
      'listener.name.scram.sasl.enabled.mechanisms': 'SCRAM-SHA-512',
      'listener.name.scram.scram-sha-512.sasl.jaas.config': `${module}.scram.ScramLoginModule required;`,
      'listener.name.encrypted.sasl.enabled.mechanisms': 'PLAIN',
      'listener.name.encrypted.plain.sasl.jaas.config': `${module}.plain.PlainLoginModule required ${user};`,
      'ssl.keystore.type': 'PEM',
      'ssl.keystore.location': store,
      'log.dirs': join(this.#directory, `data-${broker}`),
      'offsets.topic.replication.factor': '3',
      'group.initial.rebalance.delay.ms': '0',
      'min.insync.replicas': '2',
      'auto.create.topics.enable': 'false',
      'num.partitions': '6',
    })
      .map(([name, value]) => `${name}=${value}\n`)
      .join('');
  }
}

/** A line of the console consumer: partition, offset, headers, key and value between tabs. */
function readLine(line: string): ReadRecord {
  const [partition = '', offset = '', headers = '', key = '', ...value] = line.split('\t');
  const named = headers.split(/,(?=[a-z_-]+:)/).map((header) => {
    const at = header.indexOf(':');
    return [header.slice(0, at), header.slice(at + 1)];
  });
  return {
    partition: Number(partition.replace('Partition:', '')),
    offset: Number(offset.replace('Offset:', '')),
    headers: Object.fromEntries(named) as Record<string, string>,
    key,
    value: value.join('\t'),
  };
}
