import { randomInt } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';

/**
 * Below what systems give to outgoing connections and to whoever asks for any port (Linux from 32768 on):
 * one of those may be anybody's by the time that a server binds it.
 */
const FROM = 10_000;
const TO = 32_000;
const ATTEMPTS = 100;

/** A free port of 127.0.0.1: the wished one if nobody has it, else any. */
export async function freePort(wished = 0): Promise<number> {
  if (wished > 0 && (await isFree(wished))) return wished;
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const port = randomInt(FROM, TO);
    if (await isFree(port)) return port;
  }
  throw new Error(`ports: 127.0.0.1: none of ${ATTEMPTS} between ${FROM} and ${TO} is free`);
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

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
