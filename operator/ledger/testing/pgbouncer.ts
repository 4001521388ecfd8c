import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { freePort } from '../../../e2e/control-plane/ports.ts';
import type { LedgerDatabase } from '../../settings/settings.ts';
import { serverUser } from './postgres-server.ts';

/**
 * PgBouncer in front of a database, in transaction mode: each transaction may run on another
 * connection of the server.
 */
export interface PgBouncer {
  /** The database's address through the pooler. */
  readonly database: LedgerDatabase;
  stop(): Promise<void>;
}

const PROGRAM = '/usr/sbin/pgbouncer';
const READY_MS = 15_000;
/** Fewer server connections than clients, so that they are shared. */
const SERVER_CONNECTIONS = 3;

export async function startPgBouncer(database: LedgerDatabase): Promise<PgBouncer> {
  if (!existsSync(PROGRAM)) {
    throw new Error('PgBouncer is not installed: install the package pgbouncer');
  }
  const identity = serverUser();
  const directory = mkdtempSync(join(tmpdir(), 'pgbouncer-'));
  const port = await freePort();
  const { host, user, name } = database;
  const files = {
    'pgbouncer.ini': `[databases]
${name} = host=${host} port=${database.port} dbname=${name} user=${user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${join(directory, 'users.txt')}
pool_mode = transaction
default_pool_size = ${SERVER_CONNECTIONS}
max_client_conn = 200
server_reset_query_always = 0
`,
    'users.txt': `"${user}" ""\n`,
  };
  const paths = [directory];
  for (const [file, text] of Object.entries(files)) {
    writeFileSync(join(directory, file), text);
    paths.push(join(directory, file));
  }
  const { uid, gid } = identity;
  if (uid !== undefined && gid !== undefined) for (const path of paths) chownSync(path, uid, gid);
  const pooler = spawn(PROGRAM, [join(directory, 'pgbouncer.ini')], {
    ...identity,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const log: string[] = [];
  pooler.stderr.on('data', (chunk: Buffer) => log.push(chunk.toString()));
  const pooled = { ...database, host: '127.0.0.1', port };
  const stop = async (): Promise<void> => {
    if (!hasEnded(pooler)) {
      pooler.kill('SIGKILL');
      await once(pooler, 'exit');
    }
    await rm(directory, { recursive: true, force: true });
  };
  const until = performance.now() + READY_MS;
  while (!(await answers(pooled))) {
    if (hasEnded(pooler) || performance.now() > until) {
      await stop();
      throw new Error(`PgBouncer does not start: ${log.join('')}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { database: pooled, stop };
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

async function answers({ host, port, user, name }: LedgerDatabase): Promise<boolean> {
  const client = new Client({ host, port, user, database: name });
  try {
    await client.connect();
    await client.query('select 1');
    await client.end();
    return true;
  } catch {
    return false;
  }
}
