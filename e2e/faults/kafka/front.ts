import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { createFrames, isProduce, numberOfAnswer, numberOfRequest } from './frames.ts';

/**
 * What happens to a request that writes records: its connection breaks before the broker has it, or after the
 * broker took it and before the answer is through; it comes late; or the broker gets it and dies.
 */
export type Strike = 'cut' | 'cut-answer' | 'delay' | 'kill';

/** What stands before a broker; requests pass through it one after the other. */
export interface Front {
  readonly port: number;
  /** Where connections lead to from now on. */
  leadTo(port: number): void;
  close(): Promise<void>;
}

export interface FrontOptions {
  /** What happens to the next request that writes records; counts it. */
  readonly strike: () => Strike | undefined;
  readonly kill: () => Promise<void>;
}

const DELAY_MS = 300;

/** Listens on any free port of 127.0.0.1. */
export async function startFront(options: FrontOptions): Promise<Front> {
  let target = 0;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const broker = connect(target, '127.0.0.1');
    for (const socket of [client, broker]) {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    }
    pass(client, broker, options);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    leadTo: (port) => {
      target = port;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function pass(client: Socket, broker: Socket, { strike, kill }: FrontOptions): void {
  const cut = (): void => {
    client.destroy();
    broker.destroy();
  };
  /** Of requests whose answers nobody gets. */
  const unheard = new Set<number>();
  const forward = async (request: Buffer): Promise<void> => {
    const struck = isProduce(request) ? strike() : undefined;
    if (struck === 'cut') return cut();
    if (struck === 'cut-answer') unheard.add(numberOfRequest(request));
    if (struck === 'delay') await delay(DELAY_MS);
    broker.write(request);
    if (struck === 'kill') await kill();
  };
  const requests = createFrames();
  const answers = createFrames();
  let before = Promise.resolve();
  client.on('data', (chunk) => {
    for (const request of requests(chunk)) before = before.then(() => forward(request));
  });
  broker.on('data', (chunk) => {
    for (const answer of answers(chunk)) {
      if (unheard.has(numberOfAnswer(answer))) return cut();
      client.write(answer);
    }
  });
  for (const socket of [client, broker]) {
    // A connection that breaks is what these are for: the other side sees it close.
    socket.on('error', () => undefined);
    socket.once('close', cut);
  }
}
