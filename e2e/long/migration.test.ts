import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LedgerDatabase } from '../../operator/settings/settings.ts';
import { openTestLedger } from '../../operator/ledger/testing/level-ledger.ts';
import {
  type PostgresServer,
  startPostgres,
} from '../../operator/ledger/testing/postgres-server.ts';
import { seededRandom } from '../../operator/ledger/testing/seeded-random.ts';
import { benchWindow } from '../bench/ledger-events.ts';

/** 1,000,000 for the run in docs/measurements/README.md. */
const EVENTS = Number(process.env['MIGRATION_EVENTS'] ?? 100_000);
const KILLS = 10;
const WINDOW_EVENTS = 1_000;
const TOOL = join(import.meta.dirname, '../../scripts/ledger.ts');
const HOUR_MS = 3_600_000;
const NAMES = ['--stream', 'berlin', '--region', 'eu-central-1'];

let server: PostgresServer;
let database: LedgerDatabase;
let root = '';
let directory = '';

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'migration-'));
  directory = join(root, 'data');
  server = await startPostgres({ settings: ['max_wal_size = 2GB', 'shared_buffers = 256MB'] });
  database = await server.createDatabase();
  const ledger = await openTestLedger(directory, { freeBytes: async () => 2 ** 40 });
  for (let window = 0; ledger.head() < EVENTS; window++) {
    const events = benchWindow(window, Math.min(WINDOW_EVENTS, EVENTS - ledger.head()));
    const records = [{ key: `window/${window % 100}`, value: `closed ${window}` }];
    const outcome = await ledger.append({ events, records });
    if (outcome.kind === 'failed') throw new Error(outcome.message);
  }
  await ledger.commitCursor('lago', Math.floor(EVENTS / 2));
  await ledger.close();
}, HOUR_MS);
afterAll(async () => {
  await server.stop();
  await rm(root, { recursive: true });
});

function tool(...args: string[]): ChildProcess {
  const { user, host, port, name } = database;
  const url = `postgresql://${user}@${host}:${port}/${name}?sslmode=disable`;
  const env = { ...process.env, LEDGER_URL: url, LEDGER_DURABILITY: 'storage' };
  return spawn(process.execPath, [TOOL, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
}

async function answer(...args: string[]): Promise<string> {
  const child = tool(...args);
  const closed = once(child, 'close');
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('no output');
  const [output, errors] = await Promise.all([text(stdout), text(stderr)]);
  await closed;
  if (child.exitCode !== 0) throw new Error(errors);
  return output;
}

/** How far the copy is; 0 before it begins. */
async function copied(): Promise<number> {
  const rows = await server
    .query('select head from meterfeed_berlin.stream', database.name)
    .catch(() => []);
  return Number(rows[0]?.['head'] ?? 0);
}

/** Everything that a ledger holds, as one hash; and ids and quantities into a file where one is named. */
async function dumped(place: string, file?: string): Promise<string> {
  const child = tool('dump', place, ...(place === 'database' ? ['--stream', 'berlin'] : []));
  const closed = once(child, 'close');
  const { stdout } = child;
  if (stdout === null) throw new Error('no output');
  const hash = createHash('sha256');
  const out = file === undefined ? undefined : createWriteStream(file);
  for await (const line of createInterface({ input: stdout })) {
    hash.update(`${line}\n`);
    if (out === undefined) continue;
    const { event } = JSON.parse(line) as { event: { id: string; quantity: number } };
    const { id, quantity } = event;
    if (!out.write(`${JSON.stringify({ id, quantity })}\n`)) await once(out, 'drain');
  }
  if (out !== undefined) await new Promise((resolve) => out.end(resolve));
  await closed;
  return hash.digest('hex');
}

test(
  'a migration that is killed ten times on its way leaves nothing out and brings nothing twice',
  async () => {
    const random = seededRandom(EVENTS);
    const begun = performance.now();
    const killedAt: number[] = [];
    for (let kill = 0; kill < KILLS; kill++) {
      const child = tool('migrate', directory, ...NAMES);
      const closed = once(child, 'close');
      const errors = child.stderr === null ? '' : text(child.stderr);
      const threshold = Math.floor(((kill + random()) / KILLS) * EVENTS);
      while ((await copied()) < threshold && child.exitCode === null) await delay(20);
      await delay(random() * 200);
      child.kill('SIGKILL');
      await closed;
      expect(child.signalCode, await errors).toBe('SIGKILL');
      killedAt.push(await copied());
    }
    const report = JSON.parse(await answer('migrate', directory, ...NAMES)) as object;
    const seconds = (performance.now() - begun) / 1_000;
    expect(report).toMatchObject({ kind: 'copied', lastSequence: EVENTS });
    const file = join(root, 'export.ndjson');
    expect(await dumped('database', file)).toBe(await dumped(directory));
    const lines = (await answer('diff', directory, '--export', file)).trim().split('\n');
    console.log({ killedAt, seconds: Math.round(seconds), report, diff: lines.at(-1) });
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      { equal: EVENTS, missing: 0, unknown: 0, repeated: 0, differs: 0 },
    ]);
    expect(await answer('verify', 'database', '--stream', 'berlin')).toContain('"ok": true');
  },
  2 * HOUR_MS,
);
