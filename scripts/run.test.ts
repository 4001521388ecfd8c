import { existsSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type RunFiles, runFiles } from '../e2e/local/run-directory.ts';
import { endRun, type RunProcess, startRun } from '../e2e/local/testing/run-process.ts';
import { livingProcess, signalProcess } from '../e2e/processes/pid-file.ts';

const PATIENCE = { timeout: 10_000 };
const STUB = resolve(import.meta.dirname, '../e2e/local/testing/stub-operator.ts');

describe('make run', () => {
  let files: RunFiles;
  beforeEach(async () => {
    files = runFiles(await mkdtemp(join(tmpdir(), 'make-run-')));
  });
  afterEach(async () => {
    await endRun(files);
    await rm(files.directory, { recursive: true, force: true });
  });

  const start = (env: Readonly<Record<string, string>> = {}): RunProcess =>
    startRun(files, { OPERATOR_PROGRAM: STUB, ...env });

  const expectExit = async (run: RunProcess, code: number): Promise<void> => {
    const exited = await run.exited;
    expect({ exited, output: run.output() }).toMatchObject({ exited: code });
  };

  const processes = (): readonly (number | undefined)[] =>
    ['operator', 'kube-apiserver', 'etcd', 'tenant-plane/kube-apiserver', 'tenant-plane/etcd'].map(
      (name) => livingProcess(join(files.directory, `${name}.pid`)),
    );

  test('brings everything up, prints where, and leaves no process behind on Ctrl-C', async () => {
    const run = start();
    await run.ready;
    expect(processes()).not.toContain(undefined);
    const address = readFileSync(files.address, 'utf8').trim();
    expect((await fetch(`${address}/readyz`)).ok).toBe(true);
    run.child.kill('SIGINT');
    await expectExit(run, 0);
    expect(processes().filter((pid) => pid !== undefined)).toEqual([]);
    expect(readFileSync(files.operatorLog, 'utf8')).toContain('stub operator stops');
    for (const stored of [files.kubeconfig, join(files.directory, 'etcd')]) {
      expect(existsSync(stored)).toBe(true);
    }
  }, 90_000);

  test('whoever comes for the first time gets a token that works, and a tenant that can run out of money', async () => {
    const status = async (authorization?: string): Promise<number> => {
      const address = readFileSync(files.address, 'utf8').trim();
      const headers = authorization === undefined ? {} : { authorization };
      return (await fetch(`${address}/api/v1/tenants`, { headers })).status;
    };
    const run = start();
    await run.ready;
    const token = readFileSync(files.apiToken, 'utf8').trim();
    expect(token).toMatch(/^[0-9a-f]{32}$/);
    expect(statSync(files.apiToken).mode & 0o077).toBe(0);
    expect([await status(), await status(`Bearer ${token}`)]).toEqual([401, 200]);
    await expect.poll(() => run.output(), PATIENCE).toMatch(/http:\/\S+\/portal#token=of-the-stub/);
    expect(run.output()).toContain(`API token: ${token},`);
    expect(run.output()).toMatch(
      /curl -H "Authorization: Bearer \$\(cat \S+api-token\)" -H .*credits'/,
    );
    expect(readFileSync(files.operatorLog, 'utf8')).toMatch(
      /POST \/api\/v1\/tenants\/trial\/credits \{"key":"make run, .*","amount":"0\.100000000","currency":"EUR"\}/,
    );
    await expect
      .poll(() => readFileSync(files.operatorLog, 'utf8'), PATIENCE)
      .toMatch(/POST \/api\/v1\/events \{"specversion":"1.0","type":"litellm_tokens"/);
    run.child.kill('SIGINT');
    await expectExit(run, 0);

    // What was typed with it is good at the next run.
    const next = start();
    await next.ready;
    expect(await status(`Bearer ${token}`)).toBe(200);
    next.child.kill('SIGINT');
    await expectExit(next, 0);
  }, 120_000);

  test('a kill -9 of everything costs neither the cluster nor a clean next start', async () => {
    const killed = start();
    await killed.ready;
    const kubeconfig = readFileSync(files.kubeconfig, 'utf8');
    const before = processes();
    killed.child.kill('SIGKILL');
    await killed.exited;
    expect(processes()).toEqual(before);

    const next = start();
    await next.ready;
    for (const pid of before) expect(processes()).not.toContain(pid);
    expect(readFileSync(files.kubeconfig, 'utf8')).toBe(kubeconfig);
    next.child.kill('SIGTERM');
    await expectExit(next, 0);
  }, 120_000);

  test('the death of the operator ends everything, instead of being logged and made up for', async () => {
    const run = start({ API_TOKEN: 'secret-of-the-reader' });
    await run.ready;
    // What it prints to try works with the token, which it does not print.
    await expect
      .poll(() => run.output())
      .toMatch(/curl -H "Authorization: Bearer \$API_TOKEN" 'http:/);
    expect(run.output()).not.toContain('secret-of-the-reader');
    const second = start();
    await expectExit(second, 1);
    expect(second.output()).toMatch(/process \d+ is running it; stop that first/);

    for (const deaths of [1, 2]) {
      const pid = livingProcess(files.operatorPid);
      expect(pid).toBeDefined();
      if (pid !== undefined) signalProcess(pid, 'SIGKILL');
      const again = (): number => run.output().split('the operator is ready again at').length - 1;
      await expect.poll(again, { timeout: 30_000 }).toBe(deaths);
      expect(livingProcess(files.operatorPid)).not.toBe(pid);
    }
    const [line] = run.output().match(/.*the operator ended.*/) ?? [];
    expect(line).toMatch(
      /\(signal SIGKILL\); its log is .*operator\.1\.log; it is started again in 1 s$/,
    );
    expect(readFileSync(files.lastOperatorLog, 'utf8')).toContain('stub operator at 127.0.0.1');
    const address = readFileSync(files.address, 'utf8').trim();
    expect((await fetch(`${address}/readyz`)).ok).toBe(true);
    run.child.kill('SIGINT');
    await expectExit(run, 0);
    expect(processes().filter((pid) => pid !== undefined)).toEqual([]);
  }, 180_000);
});
