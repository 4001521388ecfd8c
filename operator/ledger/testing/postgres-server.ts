import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, globSync, mkdtempSync } from 'node:fs';
import { appendFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { freePort } from '../../../e2e/control-plane/ports.ts';
import type { LedgerDatabase } from '../../settings/settings.ts';

/** A PostgreSQL server on a port of the loopback device. */
export interface PostgresServer {
  /** Process id of the postmaster. */
  readonly pid: number;
  readonly port: number;
  readonly directory: string;
  /** A new, empty database; a copy of `template` where one is named. */
  createDatabase(template?: string): Promise<LedgerDatabase>;
  /** Runs a statement as superuser. */
  query(text: string, database?: string): Promise<readonly Record<string, unknown>[]>;
  /** SIGSTOP, SIGCONT, SIGKILL, … to the postmaster. */
  kill(signal: NodeJS.Signals): void;
  /** Whether the postmaster has ended. */
  hasEnded(): boolean;
  stop(): Promise<void>;
}

export interface ServerOptions {
  /** Lines of postgresql.conf. */
  readonly settings?: readonly string[];
  /** Files for the data directory, readable only for the server: certificates, `pg_hba.conf`. */
  readonly files?: Readonly<Record<string, string>>;
  /** The primary of this standby; the standby is then named `name`. */
  readonly standbyOf?: { readonly server: PostgresServer; readonly name: string };
  /**
   * Runs the server in a separate process group, which Ctrl-C does not reach; it still ends with
   * this process.
   */
  readonly ownGroup?: boolean;
  /** Parent of its directory; the system's temporary directory by default. */
  readonly parent?: string;
}

/** The owner of the databases. */
export const TEST_USER = 'meterfeed';
const READY_MS = 30_000;

/**
 * The programs of PostgreSQL: POSTGRES_BIN, or those of the newest version that Debian has
 * installed.
 */
function programs(): string {
  const named = process.env['POSTGRES_BIN'];
  const found = globSync('/usr/lib/postgresql/*/bin').toSorted((a, b) =>
    a.localeCompare(b, 'en', { numeric: true }),
  );
  const directory = named ?? found.at(-1);
  if (directory !== undefined && existsSync(join(directory, 'initdb'))) return directory;
  throw new Error(
    'PostgreSQL is not installed: install the package postgresql, or set POSTGRES_BIN',
  );
}

/** PostgreSQL refuses to run as root; it then runs as `postgres` or `nobody`. */
export function serverUser(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {};
  for (const name of ['postgres', 'nobody']) {
    const { stdout, status } = spawnSync('id', ['-u', name], { encoding: 'utf8' });
    if (status !== 0) continue;
    const gid = Number(execFileSync('id', ['-g', name], { encoding: 'utf8' }));
    return { uid: Number(stdout), gid };
  }
  return {};
}

/** Starts a server without Unix socket and without syncing to disk: tests end no machine. */
export async function startPostgres(options: ServerOptions = {}): Promise<PostgresServer> {
  const bin = programs();
  const identity = serverUser();
  const root = mkdtempSync(join(options.parent ?? tmpdir(), 'postgres-'));
  if (identity.uid !== undefined && identity.gid !== undefined) {
    chownSync(root, identity.uid, identity.gid);
  }
  const directory = join(root, 'data');
  const port = await freePort();
  const run = (program: string, ...args: string[]) =>
    execFileSync(join(bin, program), args, { ...identity, cwd: root, stdio: 'pipe' });
  const { standbyOf } = options;
  if (standbyOf === undefined) {
    run(
      'initdb',
      '-D',
      directory,
      '-U',
      TEST_USER,
      '-A',
      'trust',
      '-E',
      'UTF8',
      '--locale=C',
      '-N',
    );
  } else {
    const from = `host=127.0.0.1 port=${standbyOf.server.port} user=${TEST_USER} application_name=${standbyOf.name}`;
    run('pg_basebackup', '-D', directory, '-d', from, '-R', '-c', 'fast', '-X', 'stream');
  }
  const settings = [
    `port = ${port}`,
    "listen_addresses = '127.0.0.1'",
    "unix_socket_directories = ''",
    'fsync = off',
    'full_page_writes = off',
    'shared_buffers = 32MB',
    'wal_level = replica',
    ...(options.settings ?? []),
  ];
  await appendFile(join(directory, 'postgresql.conf'), `\n${settings.join('\n')}\n`);
  for (const [name, text] of Object.entries(options.files ?? {})) {
    const path = join(directory, name);
    await writeFile(path, text, { mode: 0o600 });
    if (identity.uid !== undefined && identity.gid !== undefined) {
      chownSync(path, identity.uid, identity.gid);
    }
  }
  const server = spawn(join(bin, 'postgres'), ['-D', directory], {
    ...identity,
    cwd: root,
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: options.ownGroup === true,
  });
  if (options.ownGroup === true) process.once('exit', () => server.kill('SIGQUIT'));
  const log: string[] = [];
  server.stderr.on('data', (chunk: Buffer) => log.push(chunk.toString()));
  const ended = once(server, 'exit');

  const databaseOf = (name: string): LedgerDatabase => ({
    host: '127.0.0.1',
    port,
    name,
    user: TEST_USER,
    tls: { mode: 'disable' },
  });
  const query = async (text: string, database = 'postgres') => {
    const client = new Client({ host: '127.0.0.1', port, user: TEST_USER, database });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(text)).rows;
    } finally {
      await client.end();
    }
  };
  let databases = 0;
  const handle: PostgresServer = {
    pid: server.pid ?? 0,
    port,
    directory,
    query,
    async createDatabase(template = 'template0') {
      databases += 1;
      const name = `ledger_${databases}`;
      await query(`create database ${name} template ${template}`);
      return databaseOf(name);
    },
    kill: (signal) => void server.kill(signal),
    hasEnded: () => server.exitCode !== null || server.signalCode !== null,
    async stop() {
      server.kill('SIGCONT');
      server.kill('SIGQUIT');
      await ended;
      await rm(root, { recursive: true, force: true });
    },
  };
  await ready(handle, log).catch(async (error: unknown) => {
    await handle.stop();
    throw error;
  });
  return handle;
}

async function ready(server: PostgresServer, log: readonly string[]): Promise<void> {
  const until = performance.now() + READY_MS;
  for (;;) {
    try {
      await server.query('select 1');
      return;
    } catch (error) {
      if (server.hasEnded() || performance.now() > until) {
        throw new Error(`PostgreSQL does not start: ${log.join('')}`, { cause: error });
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
