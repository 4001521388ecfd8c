import { rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP port of 127.0.0.1, or the path of a Unix socket. */
export type End = number | string;

/**
 * Passes what connects to `from` on to `to`. A network namespace has a loopback of its own, while sockets in the file
 * system reach across: two tunnels, one on either side, join a port here to a port there.
 */
export function tunnel(from: End, to: End): Promise<Server> {
  const server = createServer((near) => {
    const far = typeof to === 'number' ? connect(to, '127.0.0.1') : connect(to);
    join(near, far);
    join(far, near);
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    const listening = (): void => resolve(server);
    if (typeof from === 'number') server.listen(from, '127.0.0.1', listening);
    else {
      rmSync(from, { force: true });
      server.listen(from, listening);
    }
  });
}

function join(from: Socket, to: Socket): void {
  from.pipe(to);
  from.once('error', () => to.destroy());
  from.once('close', () => to.destroy());
}

/** Run as a program it holds the ends that lie within a namespace: `node tunnel.ts FROM TO [FROM TO …]`. */
if (import.meta.main) {
  const ends = process.argv.slice(2).map((end) => (/^\d+$/.test(end) ? Number(end) : end));
  for (let index = 0; index + 1 < ends.length; index += 2) {
    await tunnel(ends[index] ?? '', ends[index + 1] ?? '');
  }
}
