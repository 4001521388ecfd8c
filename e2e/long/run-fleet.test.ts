import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, expect, test } from 'vitest';
import { CLUSTERS, type FleetFiles, fleetFiles, HUBS } from '../fleet/fleet-directory.ts';
import { endFleet } from '../fleet/local-fleet.ts';
import { endRemembered, livingProcess, signalProcess } from '../processes/pid-file.ts';

const SCRIPT = resolve(import.meta.dirname, '../../scripts/run-fleet.ts');
const PATIENCE = { timeout: 120_000, interval: 500 };
const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** `make run-fleet` in a directory of its own. */
async function startFleet() {
  const files = fleetFiles(await mkdtemp(join(tmpdir(), 'run-fleet-')));
  cleanups.push(() => rm(files.directory, { recursive: true, force: true }));
  cleanups.push(async () => {
    await endRemembered(files.runPid, 60_000);
    await endFleet(files);
  });
  const child = spawn(process.execPath, [SCRIPT, files.directory], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const exited = new Promise<number | null>((done) => void child.once('close', done));
  await new Promise<void>((done, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line === 'ready') done();
    });
    void exited.then((code) => reject(new Error(`it ended with ${code}: ${output}`)));
  });
  return { files, child, exited };
}

function received(files: FleetFiles): readonly { readonly id: string; readonly region: string }[] {
  return readFileSync(files.received, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { id: string; region: string });
}

test('make run-fleet bills two clusters as one, goes on when the leader of the hub is killed, and leaves nothing behind', async () => {
  const { files, child, exited } = await startFleet();
  const token = readFileSync(files.apiToken, 'utf8').trim();
  const query = async (hub: string, path: string): Promise<unknown> => {
    const address = readFileSync(files.of(hub).address, 'utf8').trim();
    const headers = { authorization: `Bearer ${token}` };
    return (await fetch(`${address}${path}`, { headers })).json();
  };
  await expect
    .poll(() => query('hub-1', '/api/v1/fleet'), PATIENCE)
    .toMatchObject({
      role: 'hub',
      streams: CLUSTERS.map(({ name, region }) => ({
        cluster: name,
        region,
        meter: { role: 'meter', ready: true },
      })),
    });
  const regions = () => new Set(received(files).map(({ region }) => region)).size;
  await expect.poll(regions, PATIENCE).toBe(2);

  const victim = livingProcess(files.of('hub-1').operatorPid);
  if (victim === undefined) throw new Error('the leader of the hub is not there');
  signalProcess(victim, 'SIGKILL');
  const before = received(files).length;
  await expect.poll(() => received(files).length, PATIENCE).toBeGreaterThan(before + 50);
  expect(regions()).toBe(2);
  const ids = received(files).map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);

  // The same tenants live in both clusters, and each is one customer.
  const clustersOf = async (): Promise<readonly number[]> => {
    const { rows } = (await query('hub-2', '/api/v1/usage?group_by=tenant,cluster')) as {
      readonly rows: readonly { readonly tenant: string; readonly cluster: string }[];
    };
    const byTenant = Map.groupBy(rows, ({ tenant }) => tenant);
    return [...byTenant.values()].map((some) => new Set(some.map(({ cluster }) => cluster)).size);
  };
  await expect.poll(async () => Math.min(...(await clustersOf())), PATIENCE).toBe(CLUSTERS.length);
  expect(readFileSync(files.lago, 'utf8')).toContain('/api/v1/customers');

  child.kill('SIGINT');
  expect(await exited).toBe(0);
  const pids = [
    ...[...HUBS, ...CLUSTERS.map(({ name }) => name)].map((name) => files.of(name).operatorPid),
    ...files.postgresPids,
  ];
  expect(pids.map((file) => livingProcess(file)).filter((pid) => pid !== undefined)).toEqual([]);
}, 600_000);
