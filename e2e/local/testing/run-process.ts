import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { endLeftovers } from '../../control-plane/control-plane.ts';
import { endRemembered } from '../../processes/pid-file.ts';
import { prometheusPid } from '../local-telemetry.ts';
import type { RunFiles } from '../run-directory.ts';

const ROOT = resolve(import.meta.dirname, '../../..');

/** `make run` as a child process of a test, in a directory of the test's own. */
export interface RunProcess {
  readonly child: ChildProcess;
  /** Resolves with the exit code; null after a signal. */
  readonly exited: Promise<number | null>;
  /** Everything it printed so far. */
  output(): string;
  /** Resolves when it prints `ready`; rejects with its output when it ends before. */
  readonly ready: Promise<void>;
}

export function startRun(files: RunFiles, env: Readonly<Record<string, string>> = {}): RunProcess {
  // Tests run beside each other and beside people: not the port that everybody likes.
  if (!existsSync(files.operatorPort)) writeFileSync(files.operatorPort, '0\n');
  const child = spawn(process.execPath, [join(ROOT, 'scripts/run.ts'), files.directory], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const exited = new Promise<number | null>((resolve) => {
    child.once('close', resolve);
  });
  const ready = new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line === 'ready') resolve();
    });
    void exited.then((code) => reject(new Error(`make run ended with ${code}: ${output}`)));
  });
  // A test that never waits for readiness must not fail for it.
  ready.catch(() => {});
  return { child, exited, ready, output: () => output };
}

/** Ends whatever a test left running in its directory. */
export async function endRun(files: RunFiles): Promise<void> {
  await endRemembered(files.runPid, 30_000);
  await endRemembered(files.operatorPid);
  await endRemembered(prometheusPid(files));
  await endLeftovers(files.directory);
  await endLeftovers(files.tenantPlane);
}
