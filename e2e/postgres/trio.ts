import type { LedgerDatabase } from '../../operator/settings/settings.ts';
import {
  type PostgresServer,
  startPostgres,
  TEST_USER,
} from '../../operator/ledger/testing/postgres-server.ts';
import { until } from '../processes/until.ts';
import { type DatabaseProxy, startDatabaseProxy } from './proxy.ts';
import { signalAll } from './signals.ts';

/** A primary with two standbys, any of which has to have a transaction before it is committed; and the way to the primary. */
export interface Trio {
  readonly proxy: DatabaseProxy;
  primary(): PostgresServer;
  /** All that run, the primary first. */
  servers(): readonly PostgresServer[];
  /** A new, empty database, reached through the proxy. */
  createDatabase(): Promise<LedgerDatabase>;
  /** The standbys get nothing more, and the primary knows it. */
  isolate(): Promise<void>;
  /** The standbys follow the primary again. */
  attach(): Promise<void>;
  /** Kills the primary with all its processes. */
  kill(): void;
  /** The standby that has most becomes the primary, the other follows it, and the proxy leads there. */
  promote(): Promise<void>;
  /** A new standby takes the place of each primary that was lost, and all of them follow again. */
  complete(): Promise<void>;
  close(): Promise<void>;
}

export interface TrioOptions {
  /** Lines of postgresql.conf. */
  readonly settings?: readonly string[];
  /** `synchronous_standby_names`; empty commits without waiting for a standby. */
  readonly standbys?: string;
  /** Where the directory of the first primary is made. */
  readonly parent?: string;
  /** Ctrl-C in a terminal does not reach the servers. */
  readonly ownGroup?: boolean;
}

const PATIENCE = { patienceMs: 20_000, lookMs: 20 };
const SETTINGS = ['wal_keep_size = 256MB', 'hot_standby = on', 'max_connections = 400'];

export async function startTrio(options: TrioOptions = {}): Promise<Trio> {
  const trio = new ServerTrio(options);
  await trio.start();
  return trio;
}

class ServerTrio implements Trio {
  readonly #options: TrioOptions;
  #primary: PostgresServer | undefined;
  #standbys: { readonly server: PostgresServer; readonly name: string }[] = [];
  #lost: PostgresServer[] = [];
  #proxy: DatabaseProxy | undefined;
  #started = 0;

  constructor(options: TrioOptions) {
    this.#options = options;
  }

  get proxy(): DatabaseProxy {
    if (this.#proxy === undefined) throw new Error('trio: not started');
    return this.#proxy;
  }

  async start(): Promise<void> {
    const { parent, standbys = 'ANY 1 (*)', ownGroup = false } = this.#options;
    const primary = await startPostgres({
      settings: this.#settings(),
      ownGroup,
      parent,
    });
    this.#primary = primary;
    // Before the standbys are copied from it, so that they have it when they are promoted.
    await primary.query(`alter system set synchronous_standby_names = '${standbys}'`);
    await primary.query('select pg_reload_conf()');
    this.#proxy = await startDatabaseProxy(primary.port);
    await this.#addStandby();
    await this.#addStandby();
  }

  primary(): PostgresServer {
    if (this.#primary === undefined) throw new Error('trio: not started');
    return this.#primary;
  }

  servers(): readonly PostgresServer[] {
    return [this.primary(), ...this.#standbys.map(({ server }) => server)];
  }

  async createDatabase(): Promise<LedgerDatabase> {
    const database = await this.primary().createDatabase();
    return { ...database, port: this.proxy.port };
  }

  async isolate(): Promise<void> {
    await Promise.all(this.#standbys.map(({ server }) => followNobody(server)));
    await together(async () => (await this.#followers()) === 0);
  }

  async attach(): Promise<void> {
    await Promise.all(
      this.#standbys.map(({ server, name }) => follow(server, name, this.primary())),
    );
    await together(async () => (await this.#followers()) === this.#standbys.length);
  }

  kill(): void {
    signalAll(this.primary(), 'SIGKILL');
  }

  async promote(): Promise<void> {
    this.#lost.push(this.primary());
    const positions = await Promise.all(this.#standbys.map(({ server }) => received(server)));
    const most = positions.reduce((a, b) => (b > a ? b : a), 0n);
    const best = this.#standbys[positions.indexOf(most)];
    if (best === undefined) throw new Error('trio: no standby is left');
    const others = this.#standbys.filter((standby) => standby !== best);
    await best.server.query('select pg_promote()');
    await Promise.all(others.map(({ server, name }) => follow(server, name, best.server)));
    this.#primary = best.server;
    this.#standbys = others;
    this.proxy.lead(best.server.port);
    this.proxy.cut();
  }

  async complete(): Promise<void> {
    for (const server of this.#lost.splice(0)) {
      signalAll(server, 'SIGKILL');
      await server.stop();
    }
    while (this.#standbys.length < 2) await this.#addStandby();
    await this.attach();
  }

  async close(): Promise<void> {
    const servers = [...this.#lost, ...this.#standbys.map(({ server }) => server), this.primary()];
    for (const server of servers) {
      signalAll(server, 'SIGKILL');
      await server.stop();
    }
    await this.proxy.close();
  }

  async #addStandby(): Promise<void> {
    this.#started += 1;
    const name = `s${this.#started}`;
    const server = await startPostgres({
      settings: this.#settings(),
      ownGroup: this.#options.ownGroup === true,
      standbyOf: { server: this.primary(), name },
    });
    this.#standbys.push({ server, name });
    await together(async () => (await this.#followers()) === this.#standbys.length);
  }

  #settings(): readonly string[] {
    return [...SETTINGS, ...(this.#options.settings ?? [])];
  }

  async #followers(): Promise<number> {
    const rows = await this.primary().query(
      "select from pg_stat_replication where state = 'streaming' and application_name like 's%'",
    );
    return rows.length;
  }
}

async function follow(server: PostgresServer, name: string, primary: PostgresServer) {
  const from = `host=127.0.0.1 port=${primary.port} user=${TEST_USER} application_name=${name}`;
  await server.query(`alter system set primary_conninfo = '${from}'`);
  await server.query('select pg_reload_conf()');
}

async function followNobody(server: PostgresServer): Promise<void> {
  await server.query("alter system set primary_conninfo = ''");
  await server.query('select pg_reload_conf()');
}

/** How far a standby is, in bytes of the log. */
async function received(server: PostgresServer): Promise<bigint> {
  const [row] = await server.query(
    `select trunc(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'::pg_lsn)::text as bytes`,
  );
  const bytes = row?.['bytes'];
  return typeof bytes === 'string' ? BigInt(bytes) : 0n;
}

function together(holds: () => Promise<boolean>): Promise<void> {
  return until(holds, 'trio: the servers do not come together', PATIENCE);
}
