import { writeFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type ManagedProcess, type ProcessOptions, startProcess } from './managed-process.ts';
import { endRemembered, livingProcess, rememberProcess } from './pid-file.ts';

let directory = '';
let pidFile = '';
let child: ManagedProcess | undefined;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'processes-'));
  pidFile = join(directory, 'child.pid');
});
afterEach(async () => {
  await child?.stop();
  child = undefined;
  await rm(directory, { recursive: true, force: true });
});

async function start(script: string, more: Partial<ProcessOptions> = {}): Promise<ManagedProcess> {
  const logFile = join(directory, 'child.log');
  child = await startProcess({
    name: 'child',
    command: process.execPath,
    args: ['-e', script],
    env: {},
    logFile,
    pidFile,
    ready: async () => (await readFile(logFile, 'utf8')).includes('serving'),
    ...more,
  });
  return child;
}

const SERVE = "console.log('serving'); setInterval(() => {}, 1000);";
const DEAF = `process.on('SIGTERM', () => console.log('no')); ${SERVE}`;

test('a process that ends before it serves is reported with its last lines', async () => {
  await expect(start("console.log('no such file'); process.exit(3)")).rejects.toThrow(
    /child: ended before it was ready: exit code 3[\s\S]*no such file/,
  );
  expect(livingProcess(pidFile)).toBeUndefined();
});

test('a program that does not exist is named', async () => {
  await expect(start('', { command: '/no/such/program' })).rejects.toThrow(
    /child: cannot start: "\/no\/such\/program"/,
  );
});

test('a process that never serves is given up, and ended', async () => {
  await expect(start('setInterval(() => {}, 1000)', { startTimeoutMs: 300 })).rejects.toThrow(
    'child: not ready after 300 ms',
  );
  expect(livingProcess(pidFile)).toBeUndefined();
});

test('a process that does not listen to SIGTERM is ended all the same', async () => {
  const deaf = await start(DEAF);
  await deaf.stop(200);
  expect(await deaf.exited).toBe('signal SIGKILL');
});

test('a remembered process is ended by whoever finds the file', async () => {
  const { pid, exited } = await start(DEAF);
  expect(livingProcess(pidFile)).toBe(pid);
  expect(await endRemembered(pidFile, 200)).toBe(pid);
  expect(await exited).toBe('signal SIGKILL');
});

test('a stranger who got the id of a remembered process is left alone', async () => {
  const { pid } = await start(SERVE);
  writeFileSync(pidFile, `${pid}\n`);
  writeFileSync(`${pidFile}.began`, `${pid} another time\n`);
  expect(await endRemembered(pidFile)).toBeUndefined();
  rememberProcess(pidFile, pid);
  expect(livingProcess(pidFile)).toBe(pid);
});

test('a pid file cut short by a crash is as good as none', async () => {
  writeFileSync(pidFile, '1x');
  expect(await endRemembered(pidFile)).toBeUndefined();
});
