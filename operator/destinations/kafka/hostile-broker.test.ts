import { pbkdf2 } from 'node:crypto';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { promisify } from 'node:util';
import { array, assert, asyncProperty, boolean, constantFrom, nat, tuple } from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { testEvent } from '../../ledger/testing/events.ts';
import { Secret } from '../../model/secret.ts';
import { createTestContext } from '../testing/context.ts';
import type { BrokerAddress } from './broker-address.ts';
import { Kafka } from './kafka.ts';
import type { KafkaSettings } from './settings.ts';
import { type FakeBrokerOptions, startFakeBroker } from './testing/fake-broker.ts';
import { ScramServer } from './testing/scram-server.ts';

const { signal } = new AbortController();
const SASL = {
  mechanism: 'SCRAM-SHA-256',
  username: 'meterfeed',
  password: new Secret('canary'),
} as const;
const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function broker(options: FakeBrokerOptions) {
  const started = await startFakeBroker(options);
  closers.push(() => started.close());
  return started;
}

/** Starts a server that sends these bytes to every client. */
async function serverOf(serve: (socket: Socket) => void): Promise<BrokerAddress> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.resume();
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(async () => server.close());
  return { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
}

async function sentTo(
  address: BrokerAddress,
  change: Partial<KafkaSettings> = {},
  stop: AbortSignal = signal,
) {
  const settings: KafkaSettings = {
    brokers: [address],
    topic: 'usage',
    contentMode: 'structured',
    tls: false,
    source: 'control-plane',
    ...change,
  };
  const kafka = new Kafka('kafka', settings, createTestContext());
  closers.push(() => kafka.close());
  const [outcome] = await kafka.send([testEvent()], stop);
  return outcome;
}

const blocked = (problem: string) => ({
  kind: 'blocked',
  reason: `Kafka topic usage: the brokers do not answer as Kafka does: ${problem}`,
});

describe('a login', () => {
  test('with SCRAM at a good broker goes through, with a million iterations as well', async () => {
    for (const iterations of [4_096, 1_000_000]) {
      const server = new ScramServer('canary', iterations);
      const target = await broker({ scram: (message) => server.answer(message) });
      expect(await sentTo(target.address, { sasl: SASL })).toStrictEqual({ kind: 'delivered' });
    }
  });

  test.each([
    ['a text without an equals sign', 'login'],
    ['an empty answer', ''],
    ['only the salt', 's=c2FsdA==,i=4096'],
    ['no iterations', 'r=NONCEx,s=c2FsdA=='],
    ['a salt that is none', 'r=NONCEx,s=!!,i=4096'],
  ])('that is answered with %s does not end the process', async (_, answer) => {
    const scram = (message: string): string =>
      answer.replace('NONCE', /r=(.+)$/.exec(message)?.[1] ?? '');
    const target = await broker({ scram });
    expect(await sentTo(target.address, { sasl: SASL })).toStrictEqual(
      blocked('login: not an answer of SCRAM'),
    );
  });

  test('whose last answer has no equals sign does not end the process', async () => {
    const server = new ScramServer('canary');
    const target = await broker({
      scram: (message) => (message.startsWith('n,,') ? server.answer(message) : 'garbage'),
    });
    expect(await sentTo(target.address, { sasl: SASL })).toStrictEqual(
      blocked('login: not an answer of SCRAM'),
    );
  });

  test('that demands two billion iterations does not block the threads of the process', async () => {
    const server = new ScramServer('canary', 2_147_483_647);
    const target = await broker({ scram: (message) => server.answer(message) });
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, () => sentTo(target.address, { sasl: SASL })),
    );
    const problem = 'login: at most 1000000 iterations are allowed: "2147483647"';
    for (const outcome of outcomes) expect(outcome).toStrictEqual(blocked(problem));
    // Otherwise all threads would be busy for an hour.
    await promisify(pbkdf2)('a', 'b', 1, 32, 'sha256');
  });
});

describe('bytes that are no answers', () => {
  const frame = (length: number, rest = Buffer.alloc(0)): Buffer => {
    const head = Buffer.alloc(4);
    head.writeInt32BE(length);
    return Buffer.concat([head, rest]);
  };
  const range = 'an answer of 4 to 131072 bytes was expected';

  test.each([
    ['two gibibytes', 2_147_483_647],
    ['nothing', 0],
    ['fewer bytes than a number', 3],
    ['a negative number of bytes', -2_147_483_648],
  ])('an answer of %s ends the connection and not the process', async (_, length) => {
    const address = await serverOf((socket) => {
      socket.write(frame(length, Buffer.alloc(1_000)));
    });
    expect(await sentTo(address)).toStrictEqual(blocked(`${range}: "${length}"`));
  });

  test('a web server is named as none of Kafka’s, and one that wants TLS as that', async () => {
    const web = await serverOf((socket) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'));
    expect(await sentTo(web)).toStrictEqual(blocked(`${range}: "1213486160"`));
    const tls = await serverOf((socket) => socket.write(Buffer.from([0x15, 3, 1, 0, 2, 2, 70])));
    expect(await sentTo(tls)).toMatchObject({
      kind: 'blocked',
      reason: expect.stringContaining('the brokers require TLS') as string,
    });
  });

  test('an answer that comes byte by byte is read as one', async () => {
    const target = await broker({});
    const address = await serverOf((socket) => {
      const upstream = connect(target.address);
      socket.on('close', () => upstream.destroy());
      upstream.on('error', () => undefined);
      socket.pipe(upstream);
      upstream.on('data', (chunk: Buffer) => {
        for (const byte of chunk) socket.write(Buffer.of(byte));
      });
      socket.setNoDelay(true);
    });
    expect(await sentTo(address)).toStrictEqual({ kind: 'delivered' });
  });
});

describe('a cluster that names brokers', () => {
  test('and three thousand partitions is served', async () => {
    const target = await broker({ partitions: 3_000 });
    expect(await sentTo(target.address)).toStrictEqual({ kind: 'delivered' });
  });

  test.each([0, -1, 70_000])('with port %i does not end the process', async (port) => {
    const target = await broker({ leader: { host: '127.0.0.1', port } });
    expect(await sentTo(target.address)).toStrictEqual(
      blocked('a broker without a host or a port of 1 to 65535'),
    );
  });
});

test('topics that nobody requested are not collected', async () => {
  const target = await broker({ otherTopics: ['other'] });
  expect(await sentTo(target.address)).toStrictEqual(
    blocked('metadata of topics that were not requested'),
  );
});

test('answers that are bent in any way end no process, and are read in bounded time', async () => {
  await assert(
    asyncProperty(
      nat(12),
      array(tuple(nat(400), constantFrom(0, 1, 2, 0x7f, 0x80, 0xff)), {
        minLength: 1,
        maxLength: 4,
      }),
      boolean(),
      async (which, changes, login) => {
        let answers = 0;
        const server = new ScramServer('canary');
        const target = await broker({
          scram: (message) => server.answer(message),
          tamper: (_call, answer) => {
            answers += 1;
            if (answers <= which) return answer;
            const bent = Buffer.from(answer);
            for (const [at, byte] of changes) bent[4 + (at % (bent.length - 4))] = byte;
            return bent;
          },
        });
        const stop = AbortSignal.timeout(300);
        const outcome = await sentTo(target.address, login ? { sasl: SASL } : {}, stop);
        expect(outcome?.kind).toMatch(/delivered|retry|blocked|split/);
        for (const close of closers.splice(0).toReversed()) await close();
      },
    ),
    { numRuns: 40 },
  );
});
