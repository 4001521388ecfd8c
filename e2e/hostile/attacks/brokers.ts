import {
  type FakeBroker,
  startFakeBroker,
} from '../../../operator/destinations/kafka/testing/fake-broker.ts';
import { ScramServer } from '../../../operator/destinations/kafka/testing/scram-server.ts';
import { createRandom, type Random } from '../../faults/random.ts';
import type { Attack } from './attack.ts';

/** How a broker of Kafka answers while an attack is under way. */
interface Bend {
  /** In place of an honest answer to a login. */
  readonly login?: (honest: string) => string;
  /** In place of the bytes of any honest answer, its length before it. */
  readonly bytes?: (honest: Buffer) => Buffer;
}

interface BrokerAttack {
  readonly name: string;
  make(random: Random): Bend;
}

export const BROKER_ATTACKS: readonly BrokerAttack[] = [
  {
    name: 'logins that are none',
    make: (random) => {
      const text = random.pick([
        '',
        'login',
        's=',
        '=,=,=',
        ',',
        'r=,s=,i=',
        'v=',
        'e=x',
        'r'.repeat(90_000),
      ]);
      return { login: () => text };
    },
  },
  {
    name: 'logins that demand endless work',
    make: (random) => {
      const iterations = random.pick(['2147483647', '1000000', '1e9', '-1', '9'.repeat(300)]);
      return { login: (honest) => honest.replace(/i=\d+$/, `i=${iterations}`) };
    },
  },
  {
    name: 'answers of impossible lengths',
    make: (random) => {
      const length = Buffer.alloc(4);
      length.writeInt32BE(random.pick([-2_147_483_648, -1, 0, 1, 3, 200_000, 2_147_483_647]));
      const rest = Buffer.alloc(random.pick([0, 1, 8 * 1024 * 1024]));
      return { bytes: () => Buffer.concat([length, rest]) };
    },
  },
  {
    name: 'answers of a broker that are mutated',
    make: (random) => ({
      bytes: (honest) => {
        const bent = Buffer.from(honest);
        for (let left = random.between(1, 6); left > 0; left -= 1) {
          bent[4 + Math.floor(random.fraction() * (bent.length - 4))] = random.between(0, 255);
        }
        return bent;
      },
    }),
  },
  {
    name: 'brokers that cannot be',
    make: (random) => {
      const port = random.pick([0, -1, 70_000, 2_147_483_647, 1]);
      return {
        bytes: (honest) => {
          const at = honest.indexOf(HOST);
          const bent = Buffer.from(honest);
          if (at >= 0) bent.writeInt32BE(port, at + HOST.length);
          return bent;
        },
      };
    },
  },
  {
    name: 'answers that are half, or none of Kafka’s',
    make: (random) => {
      const text = random.pick([
        'HTTP/1.1 400 Bad Request\r\n\r\n',
        '\x15\x03\x01\x00\x02\x02\x46',
        '\0',
      ]);
      const isHalf = random.chance(0.5);
      return {
        bytes: (honest) =>
          isHalf ? honest.subarray(0, honest.length >> 1) : Buffer.from(text, 'latin1'),
      };
    },
  },
];

const HOST = '127.0.0.1';

/** A broker that is honest but for the attacks that are under way. */
export interface HostileBroker {
  readonly address: FakeBroker['address'];
  /** Gives the way to end it. */
  begin(attack: Attack): () => void;
}

/** `password` is that of whoever logs in. */
export async function startHostileBroker(password: string): Promise<HostileBroker> {
  const bends = new Set<Bend>();
  const scram = new ScramServer(password);
  const broker = await startFakeBroker({
    partitions: 3,
    scram: (message) => {
      const honest = scram.answer(message);
      const [bend] = bends;
      return honest === undefined ? undefined : (bend?.login?.(honest) ?? honest);
    },
    tamper: (_call, honest) => {
      const [bend] = bends;
      return bend?.bytes?.(honest) ?? honest;
    },
  });
  return {
    address: broker.address,
    begin: ({ name, seed }) => {
      const bend = BROKER_ATTACKS.find((each) => each.name === name)?.make(createRandom(seed));
      if (bend !== undefined) bends.add(bend);
      return () => {
        if (bend !== undefined) bends.delete(bend);
      };
    },
  };
}
