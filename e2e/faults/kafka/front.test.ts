import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { afterEach, expect, test } from 'vitest';
import { startFront, type Strike } from './front.ts';

const PRODUCE = 0;
const METADATA = 3;
const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** A request of Kafka's protocol: length, kind, version, number, and nothing else. */
function request(kind: number, number: number): Buffer {
  const bytes = Buffer.alloc(12);
  bytes.writeInt32BE(8, 0);
  bytes.writeInt16BE(kind, 4);
  bytes.writeInt32BE(number, 8);
  return bytes;
}

function answer(number: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeInt32BE(4, 0);
  bytes.writeInt32BE(number, 4);
  return bytes;
}

/** A broker that answers each request, behind a front with these strikes, and what it was sent. */
async function behind(strikes: Strike[], kill = async (): Promise<void> => undefined) {
  const taken: number[] = [];
  const broker = createServer((socket) => {
    closers.push(() => socket.destroy());
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      for (let at = 0; at < chunk.length; at += 12) {
        taken.push(chunk.readInt32BE(at + 8));
        socket.write(answer(chunk.readInt32BE(at + 8)));
      }
    });
  });
  broker.listen(0, '127.0.0.1');
  await once(broker, 'listening');
  closers.push(() => broker.close());
  const front = await startFront({ strike: () => strikes.shift(), kill });
  closers.push(() => front.close());
  front.leadTo((broker.address() as AddressInfo).port);
  const client: Socket = connect(front.port, '127.0.0.1');
  return { taken, client };
}

test('only requests that write records are struck; one that is cut never reaches the broker', async () => {
  const { taken, client } = await behind(['cut']);
  client.write(request(METADATA, 1));
  const [reported] = (await once(client, 'data')) as [Buffer];
  expect(reported).toEqual(answer(1));
  client.write(request(PRODUCE, 2));
  await once(client, 'close');
  expect(taken).toEqual([1]);
});

test('the broker has a request whose answer is cut, and its sender never learns of it', async () => {
  const { taken, client } = await behind(['cut-answer']);
  client.write(Buffer.concat([request(PRODUCE, 1), request(METADATA, 2)]));
  expect(await buffer(client)).toEqual(Buffer.alloc(0));
  expect(taken[0]).toBe(1);
});

test('what comes late comes, and what follows it comes after it', async () => {
  const { taken, client } = await behind(['delay']);
  client.write(Buffer.concat([request(PRODUCE, 1), request(METADATA, 2)]));
  let reported = 0;
  for await (const chunk of client) {
    reported += (chunk as Buffer).length;
    if (reported === 16) break;
  }
  expect(taken).toEqual([1, 2]);
});

test('the broker has the request at which it is killed', async () => {
  const killed = Promise.withResolvers<void>();
  const { taken, client } = await behind(['kill'], async () => killed.resolve());
  client.write(request(PRODUCE, 1));
  await Promise.all([killed.promise, once(client, 'data')]);
  expect(taken).toEqual([1]);
});
