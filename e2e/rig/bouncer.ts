import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort, listens } from '../control-plane/ports.ts';
import { TEST_USER } from '../../operator/ledger/testing/postgres-server.ts';
import { type ManagedProcess, startProcess } from '../processes/managed-process.ts';

/** PgBouncer in transaction mode before a server, as Debian's package `pgbouncer` has it. */
export interface Bouncer {
  readonly port: number;
  /** Ends it as a crash would, and starts it again on its port. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export function isBouncerInstalled(): boolean {
  return spawnSync('pgbouncer', ['--version']).status === 0;
}

export async function startBouncer(directory: string, serverPort: number): Promise<Bouncer> {
  mkdirSync(directory, { recursive: true });
  const port = await freePort();
  const file = (name: string): string => join(directory, name);
  writeFileSync(
    file('pgbouncer.ini'),
    [
      '[databases]',
      `* = host=127.0.0.1 port=${serverPort} user=${TEST_USER}`,
      '[pgbouncer]',
      'listen_addr = 127.0.0.1',
      `listen_port = ${port}`,
      'unix_socket_dir =',
      'auth_type = any',
      'auth_file =',
      'pool_mode = transaction',
      'server_connect_timeout = 5',
      'server_login_retry = 1',
      '',
    ].join('\n'),
  );
  // It does not run as root.
  const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const launch = (): Promise<ManagedProcess> =>
    startProcess({
      name: 'pgbouncer',
      command: 'pgbouncer',
      args: [...user, file('pgbouncer.ini')],
      env: { PATH: process.env['PATH'] },
      logFile: file('pgbouncer.log'),
      pidFile: file('pgbouncer.pid'),
      ready: () => listens(port),
    });
  let running = await launch();
  return {
    port,
    restart: async () => {
      await running.stop(0);
      running = await launch();
    },
    stop: () => running.stop(),
  };
}
