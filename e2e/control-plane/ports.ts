import { readFile, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';

/** A free port of 127.0.0.1: the wished one if nobody has it, else any. */
export async function freePort(wished = 0): Promise<number> {
  const port = await tryPort(wished);
  if (port !== undefined) return port;
  const other = await tryPort(0);
  if (other === undefined) throw new Error('ports: 127.0.0.1: none is free');
  return other;
}

/**
 * A port that stays the same from run to run while nobody else takes it; the file remembers it.
 * `preferred` is tried when there is no file yet.
 */
export async function stablePort(file: string, preferred = 0): Promise<number> {
  const wished = Number(await readFile(file, 'utf8').catch(() => String(preferred)));
  const port = await freePort(Number.isInteger(wished) ? wished : 0);
  await writeFile(file, `${port}\n`);
  return port;
}

/** Whether somebody answers on a port of 127.0.0.1. */
export function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

function tryPort(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen(port, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' ? address?.port : undefined));
    });
  });
}
