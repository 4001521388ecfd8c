import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { transformSync } from 'esbuild';
import { bundle } from '../../../scripts/bundle.ts';
import { freePort } from '../../control-plane/ports.ts';
import { residentBytes } from '../../processes/memory.ts';
import type { Stall } from '../observer/stalls.ts';
import { type ShippedCommand, shippedCommand } from './shipped-command.ts';

export interface OperatorOptions {
  /** Of its own: image, data and log are put there. */
  readonly directory: string;
  /** The kubeconfig of the host's API. */
  readonly kubeconfig: string;
  readonly environment: Readonly<Record<string, string>>;
  /** A module to load into the process before it, which makes it misbehave. */
  readonly plant?: { readonly module: string; readonly what: string };
  /** It ended although nobody told it to: how, and the end of what it said. */
  readonly ended: (how: string) => void;
}

/** The operator as it is shipped, started, killed and started again on the same ledger. */
export interface HostileTarget {
  /** `http://127.0.0.1:<port>` */
  readonly address: string;
  /** The port for the kubelet's probes alone. */
  readonly probeAddress: string;
  readonly logFile: string;
  readonly memoryLimitMiB: number;
  /** False from a kill until it has said that it is ready again. */
  readonly isUp: boolean;
  /** It has ended although nobody told it to, and has not been started again. */
  readonly hasEnded: boolean;
  /** Starts it; false when it ended, or was not ready in time. */
  start(): Promise<boolean>;
  /** Ends it without a word, or asks it to stop. */
  stop(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** When its main thread kept timers waiting since the last call. */
  takeStalls(): readonly Stall[];
  peakMiB(): number;
  readonly pid: number | undefined;
}

const READY_MS = 60_000;
const MEMORY_POLL_MS = 100;
/** Longer than from one report from inside to the next. */
const REPORT_MS = 1_500;
const STOP_GRACE_MS = 20_000;
const MIB = 1024 * 1024;

export async function prepareOperator(options: OperatorOptions): Promise<HostileTarget> {
  const { directory } = options;
  const places = {
    '/app': join(directory, 'app'),
    '/var/run/secrets': join(directory, 'secrets'),
    '/var/lib/vbilling-data': join(directory, 'data'),
    '/tmp': join(directory, 'tmp'),
  };
  for (const place of Object.values(places)) await mkdir(place, { recursive: true });
  await bundle(places['/app']);
  writeFileSync(join(places['/var/run/secrets'], 'kubeconfig'), options.kubeconfig);
  const modules = [join(import.meta.dirname, 'inside.ts'), options.plant?.module ?? ''];
  const imports = modules
    .filter((file) => file !== '')
    .map((file, index) => {
      const target = join(places['/app'], `observed-${index}.mjs`);
      const source = readFileSync(file, 'utf8');
      writeFileSync(target, transformSync(source, { loader: 'ts', format: 'esm' }).code);
      return target;
    });
  const ports = { main: await freePort(), probes: await freePort() };
  return new Target(options, shippedCommand(places), imports, ports);
}

class Target implements HostileTarget {
  readonly address: string;
  readonly probeAddress: string;
  readonly logFile: string;
  readonly memoryLimitMiB: number;
  readonly #options: OperatorOptions;
  readonly #command: ShippedCommand;
  readonly #imports: readonly string[];
  readonly #ports: { readonly main: number; readonly probes: number };
  #child: ChildProcess | undefined;
  #isUp = false;
  #isReported = false;
  #hasEnded = false;
  #stalls: Stall[] = [];
  #peak = 0;
  #measuredFrom = Number.POSITIVE_INFINITY;

  constructor(
    options: OperatorOptions,
    command: ShippedCommand,
    imports: readonly string[],
    ports: { readonly main: number; readonly probes: number },
  ) {
    this.#options = options;
    this.#command = command;
    this.#imports = imports;
    this.#ports = ports;
    this.address = `http://127.0.0.1:${ports.main}`;
    this.probeAddress = `http://127.0.0.1:${ports.probes}`;
    this.logFile = join(options.directory, 'operator.log');
    this.memoryLimitMiB = command.memoryLimitBytes / MIB;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  async start(): Promise<boolean> {
    await this.#gone();
    this.#hasEnded = false;
    this.#measuredFrom = Number.POSITIVE_INFINITY;
    const child = this.#fork();
    this.#child = child;
    this.#isReported = false;
    child.on('message', (reported: { readonly stalls: readonly Stall[] }) => {
      // What is done before it is ready holds nobody up; a report is of the second before it.
      if (performance.now() >= this.#measuredFrom) this.#stalls.push(...reported.stalls);
    });
    child.once('exit', (code, signal) => {
      if (child === this.#child) this.#exited(`ended with ${signal ?? code}`);
    });
    void this.#watchMemory(child);
    const deadline = performance.now() + READY_MS;
    while (performance.now() < deadline) {
      if (isOver(child)) return false;
      const ready = await fetch(`${this.probeAddress}/readyz`).catch(() => undefined);
      if (ready?.ok === true) {
        this.#isUp = true;
        this.#measuredFrom = performance.now() + REPORT_MS;
        return true;
      }
      await delay(100);
    }
    this.#exited('was not ready within a minute of its start');
    this.#isReported = true;
    child.kill('SIGKILL');
    return false;
  }

  async stop(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const child = this.#child;
    this.#isUp = false;
    this.#isReported = true;
    if (child === undefined || isOver(child)) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    const escalation = setTimeout(() => child.kill('SIGKILL'), STOP_GRACE_MS);
    await exited;
    clearTimeout(escalation);
  }

  takeStalls(): readonly Stall[] {
    return this.#stalls.splice(0);
  }

  peakMiB(): number {
    return this.#peak;
  }

  /** Until nothing of the process before has the ledger any more. */
  async #gone(): Promise<void> {
    const child = this.#child;
    if (child === undefined || isOver(child)) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  #fork(): ChildProcess {
    const { directory, environment, plant } = this.#options;
    const log = openSync(this.logFile, 'a');
    return fork(join(directory, 'app', 'main.js'), [], {
      execArgv: [
        ...this.#command.options,
        '--allow-fs-read=/proc',
        ...this.#imports.flatMap((file) => ['--import', file]),
      ],
      stdio: ['ignore', log, log, 'ipc'],
      env: {
        ...this.#command.environment,
        POD_NAMESPACE: 'meterfeed-system',
        KUBECONFIG: join(directory, 'secrets', 'kubeconfig'),
        DATA_DIR: join(directory, 'data'),
        LISTEN_ADDR: `127.0.0.1:${this.#ports.main}`,
        PROBE_ADDR: `127.0.0.1:${this.#ports.probes}`,
        ...environment,
        ...(plant === undefined ? {} : { HOSTILE_PLANT: plant.what }),
      },
    });
  }

  #exited(how: string): void {
    this.#isUp = false;
    if (this.#isReported) return;
    this.#isReported = true;
    this.#hasEnded = true;
    this.#options.ended(`${how}: …${readFileSync(this.logFile, 'utf8').slice(-1500)}`);
  }

  /** As the kernel does it: what holds more than its limit is ended. */
  async #watchMemory(child: ChildProcess): Promise<void> {
    while (!isOver(child)) {
      const resident = residentBytes(child.pid, 'VmRSS') || 0;
      const most = residentBytes(child.pid, 'VmHWM') || 0;
      this.#peak = Math.max(this.#peak, most / MIB);
      if (resident > this.#command.memoryLimitBytes) {
        const held = Math.round(resident / MIB);
        this.#exited(`held ${held} MiB, more than its limit of ${this.memoryLimitMiB}`);
        child.kill('SIGKILL');
        return;
      }
      await delay(MEMORY_POLL_MS);
    }
  }
}

function isOver({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
