import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { senderOf } from './sender.ts';

async function listen(): Promise<Server> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

async function accepted(server: Server): Promise<Socket> {
  const [socket] = (await once(server, 'connection')) as [Socket];
  return socket;
}

const port = (server: Server): number => (server.address() as AddressInfo).port;

test('a request is taken for that of a process that has the same local port elsewhere', async () => {
  const [ours, childs] = [await listen(), await listen()];
  const free = await listen();
  const localPort = port(free);
  await once(free.close(), 'close');
  const atOurs = accepted(ours);
  const own = connect({ port: port(ours), host: '127.0.0.1', localPort });
  const atChilds = accepted(childs);
  const options = { port: port(childs), host: '127.0.0.1', localPort };
  const child = spawn(process.execPath, [
    '-e',
    `require('node:net').connect(${JSON.stringify(options)})`,
  ]);
  try {
    const pids = [process.pid, child.pid ?? 0];
    const both = await Promise.all([atOurs, atChilds]);
    expect(both.map((socket) => senderOf(socket, pids))).toStrictEqual(pids);
  } finally {
    child.kill();
    own.destroy();
    ours.close();
    childs.close();
  }
});
