import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A connection's way from clients to a server of this machine, which can be led elsewhere and made to fail. */
export interface DatabaseProxy {
  readonly port: number;
  /** New connections go to this port. */
  lead(port: number): void;
  /** Ends every connection. */
  cut(): void;
  /** What is sent goes nowhere from now on, while every connection stays open: all of it, or the server's answers alone. */
  swallow(what: 'everything' | 'answers'): void;
  /** Ends the connections that have missed something, and lets everything through again. */
  restore(): void;
  close(): Promise<void>;
}

interface Way {
  readonly client: Socket;
  readonly server: Socket;
}

export async function startDatabaseProxy(firstPort: number): Promise<DatabaseProxy> {
  const ways = new Set<Way>();
  let target = firstPort;
  let swallowed: 'nothing' | 'answers' | 'everything' = 'nothing';

  const listener = createServer((client) => {
    const server = connect(target, '127.0.0.1');
    const way = { client, server };
    ways.add(way);
    const end = (): void => {
      ways.delete(way);
      client.destroy();
      server.destroy();
    };
    client.on('data', (chunk) => {
      if (swallowed !== 'everything') server.write(chunk);
    });
    server.on('data', (chunk) => {
      if (swallowed === 'nothing') client.write(chunk);
    });
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      socket.on('error', end);
      socket.on('close', end);
    }
  }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();

  const cut = (): void => {
    for (const { client, server } of ways) {
      client.destroy();
      server.destroy();
    }
  };
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    lead(port) {
      target = port;
    },
    cut,
    swallow(what) {
      swallowed = what;
    },
    restore() {
      swallowed = 'nothing';
      cut();
    },
    async close() {
      cut();
      listener.close();
      await once(listener, 'close');
    },
  };
}
