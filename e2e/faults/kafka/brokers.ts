import { Admin } from '@platformatic/kafka';
import { setTimeout as delay } from 'node:timers/promises';
import { startFakeServer } from '../../fakes/fake-server.ts';
import type { Misbehaviour, MisbehaviourKind, Misbehaviours } from '../../fakes/misbehaviour.ts';
import { startKafkaCluster } from '../../kafka/cluster.ts';
import type { Vendor } from '../vendors/vendors.ts';
import { billOf } from './bill.ts';
import { kafkaAddress } from './destination.ts';
import { type Front, startFront, type Strike } from './front.ts';
import { readTopic } from './read-topic.ts';

/** Three brokers of Apache Kafka with what strikes before each; one topic at a time is written to. */
export interface KafkaBrokers {
  /** A new topic, written to through the fronts, and what is ordered at its address strikes there. */
  open(): Promise<Vendor>;
  /** What happened so far. */
  counts(): KafkaCounts;
  close(): Promise<void>;
}

export interface KafkaCounts {
  /** Events in topics, each id once, and how many records repeated one. */
  readonly events: number;
  readonly repeats: number;
  /** Requests that were cut off or late, and those at which a broker was killed. */
  readonly struck: number;
  readonly killed: number;
}

const PARTITIONS = 3;
const REPLICAS = 3;
const TOPIC_MS = 60_000;
const PAUSE_MS = 250;

/** What a vendor's misbehaviour is to Kafka, which has no answer that is refused by chance. */
const STRIKES: Readonly<Record<MisbehaviourKind, Strike>> = {
  reset: 'cut',
  'commit-then-reset': 'cut-answer',
  'commit-then-hang': 'cut-answer',
  'commit-then-status': 'cut-answer',
  hang: 'delay',
  status: 'delay',
};

/** Throws where Apache Kafka is not to be had, with the reason. */
export async function startKafkaBrokers(): Promise<KafkaBrokers> {
  let weather: Misbehaviours | undefined;
  let away: Promise<void> = Promise.resolve();
  let isAway = false;
  const counts = { events: 0, repeats: 0, struck: 0, killed: 0 };
  const strike = (): Strike | undefined => {
    const order = weather?.next('PRODUCE', '');
    if (order === undefined) return undefined;
    if (isEndless(order)) weather?.clear();
    if (isEndless(order) && !isAway) return 'kill';
    counts.struck += 1;
    return STRIKES[order.kind];
  };
  const kill = async (broker: number): Promise<void> => {
    isAway = true;
    counts.killed += 1;
    await cluster.kill(broker);
    away = cluster.restart(broker).finally(() => {
      isAway = false;
    });
  };
  const fronts: Front[] = [];
  for (const broker of [1, 2, 3])
    fronts.push(await startFront({ strike, kill: () => kill(broker) }));
  const cluster = await startKafkaCluster({ fronts: fronts.map(({ port }) => port) });
  for (const [index, front] of fronts.entries()) {
    front.leadTo(Number(cluster.behindFronts[index]?.split(':')[1]));
  }
  const admin = new Admin({ clientId: 'faults', bootstrapBrokers: [...cluster.plain] });
  const addresses = fronts.map(({ port }) => `127.0.0.1:${port}`);
  let topics = 0;

  /** Until all brokers are back, each of which is to have a replica. */
  const createTopic = async (topic: string): Promise<void> => {
    await away;
    const deadline = performance.now() + TOPIC_MS;
    for (;;) {
      try {
        await admin.createTopics({ topics: [topic], partitions: PARTITIONS, replicas: REPLICAS });
        return;
      } catch (error) {
        if (performance.now() > deadline) throw error;
        await delay(PAUSE_MS);
      }
    }
  };

  return {
    open: async () => {
      topics += 1;
      const topic = `faults-${topics}`;
      await createTopic(topic);
      const control = await startFakeServer({ handle: () => ({ status: 204 }) });
      weather = control.misbehaviours;
      return {
        name: 'kafka',
        url: kafkaAddress(control.url, topic, addresses),
        bill: async () => {
          await control.close();
          const bill = billOf(await readTopic(cluster.plain, topic));
          counts.events += bill.billed.length;
          counts.repeats += bill.repeats;
          return bill;
        },
      };
    },
    counts: () => ({ ...counts }),
    close: async () => {
      await away;
      await admin.close();
      for (const front of fronts) await front.close();
      await cluster.close();
    },
  };
}

/** A vendor that answers nobody any more is a broker that dies; the two others go on. */
function isEndless({ times }: Misbehaviour): boolean {
  return times === undefined;
}
