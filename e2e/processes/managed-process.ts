import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { forgetProcess, rememberProcess, signalProcess } from './pid-file.ts';

export interface ProcessOptions {
  /** Names the process in errors. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** The whole environment of the process; nothing is inherited silently. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** Standard output and error go to the end of this file. */
  readonly logFile: string;
  readonly pidFile: string;
  /** Whether the process serves; asked every 100 ms. A rejection means "not yet". */
  readonly ready: () => Promise<boolean>;
  readonly startTimeoutMs?: number;
  /** Aborting it gives up waiting for readiness and ends the process. */
  readonly signal?: AbortSignal;
}

export interface ManagedProcess {
  readonly name: string;
  readonly pid: number;
  /** Resolves with how the process ended, for example `exit code 1` or `signal SIGKILL`. */
  readonly exited: Promise<string>;
  /** SIGTERM, and SIGKILL after the grace. Resolves when the process is gone and its pid file removed. */
  stop(graceMs?: number): Promise<void>;
}

const READY_POLL_MS = 100;
const START_TIMEOUT_MS = 60_000;
const STOP_GRACE_MS = 10_000;

/** Every child still running, so that an ordinary exit of this process takes them along. */
const running = new Set<number>();
process.on('exit', () => {
  for (const pid of running) signalProcess(pid, 'SIGKILL');
});

/**
 * Starts a server process and resolves once it serves. It gets a process group of its own, so that
 * Ctrl-C in a terminal reaches only its owner, who stops things in the right order. Rejects, with the
 * end of its log, when it exits first or is not ready in time.
 */
export async function startProcess(options: ProcessOptions): Promise<ManagedProcess> {
  const child = launch(options);
  const exited = whenExited(child, options);
  if (child.pid === undefined) throw new Error(`${options.name}: ${await exited}`);
  rememberProcess(options.pidFile, child.pid);
  const managed = manage(options.name, child.pid, exited);
  try {
    await waitUntilReady(options, exited);
    return managed;
  } catch (error) {
    await managed.stop();
    throw error;
  }
}

/** The last lines of a log file, for an error message; empty when there is none. */
export function logTail(file: string, lines = 20): string {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  } catch {
    return '';
  }
}

function launch(options: ProcessOptions): ChildProcess {
  mkdirSync(dirname(options.logFile), { recursive: true });
  const log = openSync(options.logFile, 'a');
  try {
    return spawn(options.command, [...options.args], {
      stdio: ['ignore', log, log],
      detached: true,
      env: options.env,
      cwd: options.cwd,
    });
  } finally {
    closeSync(log);
  }
}

function whenExited(child: ChildProcess, options: ProcessOptions): Promise<string> {
  const { pid } = child;
  if (pid !== undefined) running.add(pid);
  return new Promise((resolve) => {
    child.once('error', (error) => {
      resolve(`cannot start: "${options.command}": ${error.message}`);
    });
    child.once('exit', (code, signal) => {
      if (pid !== undefined) running.delete(pid);
      forgetProcess(options.pidFile);
      resolve(signal === null ? `exit code ${code}` : `signal ${signal}`);
    });
  });
}

function manage(name: string, pid: number, exited: Promise<string>): ManagedProcess {
  return {
    name,
    pid,
    exited,
    stop: async (graceMs = STOP_GRACE_MS) => {
      if (!running.has(pid)) return;
      signalProcess(pid, 'SIGTERM');
      const escalation = setTimeout(() => signalProcess(pid, 'SIGKILL'), graceMs);
      await exited;
      clearTimeout(escalation);
    },
  };
}

async function waitUntilReady(options: ProcessOptions, exited: Promise<string>): Promise<void> {
  const timeoutMs = options.startTimeoutMs ?? START_TIMEOUT_MS;
  const deadline = performance.now() + timeoutMs;
  let ending: string | undefined;
  void exited.then((how) => {
    ending = how;
  });
  for (;;) {
    options.signal?.throwIfAborted();
    if (ending !== undefined) throw failure(options, `ended before it was ready: ${ending}`);
    if (await options.ready().catch(() => false)) return;
    if (performance.now() > deadline) throw failure(options, `not ready after ${timeoutMs} ms`);
    await delay(READY_POLL_MS);
  }
}

function failure(options: ProcessOptions, what: string): Error {
  return new Error(
    `${options.name}: ${what}: ${options.logFile} ends\n${logTail(options.logFile)}`,
  );
}
