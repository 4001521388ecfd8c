import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type DatabaseProxy, startDatabaseProxy } from '../../../e2e/postgres/proxy.ts';
import type { LedgerDatabase } from '../../config/settings.ts';
import { type Acknowledged, inspectAfterCrash } from '../testing/crash.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { seededRandom } from '../testing/seeded-random.ts';
import { useLedgers } from '../testing/use-ledgers.ts';

/** More with LEDGER_KILLS, for a long run. */
const KILLS = Number(process.env['LEDGER_KILLS'] ?? 10);
const RUN_MS = 25_000;
/** Nobody listens there. */
const NO_PORT = 1;

const server = usePostgres();
const used = useLedgers();
let proxy: DatabaseProxy;
let database: LedgerDatabase;
let running: Metering | undefined;
beforeEach(async () => {
  database = await server.server().createDatabase();
  proxy = await startDatabaseProxy(database.port);
});
afterEach(async () => {
  await running?.kill();
  await proxy.close();
});

interface Said extends Acknowledged {
  readonly spooled: boolean;
}

/** A process that meters into a database which may be away. */
class Metering {
  readonly #child: ChildProcess;
  readonly #errors: string[] = [];
  readonly #lines: AsyncIterator<string>;
  newest: Said | undefined;

  constructor(dataDir: string) {
    const script = join(import.meta.dirname, '../testing/spool-process.ts');
    const args = [script, String(proxy.port), database.name, dataDir];
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    child.stderr.on('data', (chunk: Buffer) => this.#errors.push(chunk.toString()));
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** Until so many windows more are acknowledged: of those that have gone where `spooled` says, or of all. */
  async windows(count: number, spooled?: boolean): Promise<void> {
    for (let seen = 0; seen < count; ) {
      if (!(await this.#next())) throw new Error(`ended by itself: ${this.#errors.join('')}`);
      if (spooled === undefined || this.newest?.spooled === spooled) seen += 1;
    }
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const closed = once(this.#child, 'close');
    this.#child.kill('SIGKILL');
    await this.#rest();
    await closed;
  }

  /** Until everything has followed. */
  async end(): Promise<void> {
    const closed = once(this.#child, 'close');
    this.#child.stdin?.end();
    await this.#rest();
    await closed;
    if (this.#child.exitCode !== 0) throw new Error(this.#errors.join(''));
  }

  async #next(): Promise<boolean> {
    const { value, done } = await this.#lines.next();
    if (done === true) return false;
    this.newest = JSON.parse(value) as Said;
    return true;
  }

  async #rest(): Promise<void> {
    while (await this.#next());
  }
}

test(
  'a process that is killed while it spools or drains loses nothing it acknowledged, and nothing is there twice',
  async () => {
    const dataDir = await used.directory();
    const random = seededRandom(KILLS);
    const below = (most: number): number => Math.floor(random() * most);
    let newest: Said | undefined;
    for (let kill = 0; kill < KILLS; kill++) {
      const metering = new Metering(dataDir);
      running = metering;
      await metering.windows(1 + below(5), false);
      // A commit whose answer does not come may be stored.
      if (below(2) === 0) proxy.swallow('answers');
      await delay(below(30));
      proxy.lead(NO_PORT);
      proxy.restore();
      await metering.windows(below(20), true);
      const comesBack = below(3) > 0;
      if (comesBack) {
        proxy.lead(database.port);
        // Killed while it drains, or not long after.
        await (below(2) === 0 ? metering.windows(1 + below(60)) : metering.windows(1, false));
      }
      await metering.kill();
      proxy.lead(database.port);
      newest = metering.newest ?? newest;
    }
    const metering = new Metering(dataDir);
    running = metering;
    await metering.end();
    const ledger = await openTestStream(database);
    expect(await inspectAfterCrash(ledger, metering.newest ?? newest)).toEqual([]);
    expect(ledger.stats().conflicts).toBe(0);
    await ledger.close();
  },
  RUN_MS * KILLS,
);
