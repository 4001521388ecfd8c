import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { endLeftovers } from '../e2e/control-plane/control-plane.ts';
import { type RunFiles, runFiles } from '../e2e/local/run-directory.ts';
import { endRemembered, livingProcess, signalProcess } from '../e2e/processes/pid-file.ts';

const ROOT = resolve(import.meta.dirname, '..');
const STUB = join(ROOT, 'e2e/local/testing/stub-operator.ts');

/** One `make run` with a stub for the operator. */
interface Run {
  readonly child: ChildProcess;
  readonly exited: Promise<number | null>;
  readonly output: () => string;
}

describe('make run', () => {
  let files: RunFiles;
  beforeEach(async () => {
    files = runFiles(await mkdtemp(join(tmpdir(), 'make-run-')));
  });
  afterEach(async () => {
    await endRemembered(files.runPid);
    await endRemembered(files.operatorPid);
    await endLeftovers(files.directory);
    await rm(files.directory, { recursive: true, force: true });
  });

  const start = (): Run => {
    const child = spawn(process.execPath, [join(ROOT, 'scripts/run.ts'), files.directory], {
      env: { ...process.env, OPERATOR_PROGRAM: STUB },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const exited = new Promise<number | null>((resolve) => {
      child.once('close', resolve);
    });
    return { child, exited, output: () => output };
  };

  const untilReady = async ({ child, exited, output }: Run): Promise<void> => {
    const { stdout } = child;
    if (stdout === null) throw new Error('no output');
    const ready = new Promise<'ready'>((resolve) => {
      createInterface({ input: stdout }).on('line', (line) => {
        if (line === 'ready') resolve('ready');
      });
    });
    const first = await Promise.race([ready, exited]);
    if (first !== 'ready') throw new Error(`ended with ${first}: ${output()}`);
  };

  const expectExit = async (run: Run, code: number): Promise<void> => {
    const exited = await run.exited;
    expect({ exited, output: run.output() }).toMatchObject({ exited: code });
  };

  const processes = (): readonly (number | undefined)[] =>
    ['operator', 'kube-apiserver', 'etcd'].map((name) =>
      livingProcess(join(files.directory, `${name}.pid`)),
    );

  test('brings everything up, tells where, and leaves no process behind on Ctrl-C', async () => {
    const run = start();
    await untilReady(run);
    expect(processes()).not.toContain(undefined);
    const address = readFileSync(files.address, 'utf8').trim();
    expect((await fetch(`${address}/readyz`)).ok).toBe(true);
    run.child.kill('SIGINT');
    await expectExit(run, 0);
    expect(processes()).toEqual([undefined, undefined, undefined]);
    expect(readFileSync(files.operatorLog, 'utf8')).toContain('stub operator stops');
    for (const kept of [files.kubeconfig, join(files.directory, 'etcd')]) {
      expect(existsSync(kept)).toBe(true);
    }
  }, 90_000);

  test('a kill -9 of everything costs neither the cluster nor a clean next start', async () => {
    const killed = start();
    await untilReady(killed);
    const kubeconfig = readFileSync(files.kubeconfig, 'utf8');
    const before = processes();
    killed.child.kill('SIGKILL');
    await killed.exited;
    expect(processes()).toEqual(before);

    const next = start();
    await untilReady(next);
    for (const pid of before) expect(processes()).not.toContain(pid);
    expect(readFileSync(files.kubeconfig, 'utf8')).toBe(kubeconfig);
    next.child.kill('SIGTERM');
    await expectExit(next, 0);
  }, 120_000);

  test('when the operator dies it says how, shows its last lines and stops the rest', async () => {
    const run = start();
    await untilReady(run);
    const second = start();
    expect(await second.exited).toBe(1);
    expect(second.output()).toMatch(/process \d+ is running it; stop that first/);

    const pid = livingProcess(files.operatorPid);
    expect(pid).toBeDefined();
    if (pid !== undefined) signalProcess(pid, 'SIGKILL');
    expect(await run.exited).toBe(1);
    expect(run.output()).toMatch(/operator: signal SIGKILL[\s\S]*stub operator at 127\.0\.0\.1/);
    expect(processes()).toEqual([undefined, undefined, undefined]);
  }, 90_000);
});
