import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { RunningOperator } from '../local/operator-process.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { signalProcess } from '../processes/pid-file.ts';
import type { ReceivedEvent } from '../long/received.ts';
import type { ClosedWindow } from './bills.ts';
import { WINDOW_MS } from './figures.ts';

/** Several processes of the operator on one database. */
export interface Replicas {
  /** Of one that is there. */
  address(): string;
  /**
   * Ends the one that leads, `times` over a stretch of time, and starts it again each time. Gives when it was ended each time, milliseconds
   * since the epoch.
   */
  endLeaders(times: number, until: number): Promise<readonly number[]>;
  stop(): Promise<void>;
}

export interface ReplicasOptions {
  readonly directory: string;
  readonly count: number;
  readonly start: (files: RunFiles) => Promise<RunningOperator>;
  /** Whether it is told to stop, as in a rolling update, and not killed. */
  readonly inOrder: boolean;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly log: (line: string) => void;
}

interface Replica {
  readonly files: RunFiles;
  running: RunningOperator | undefined;
}

const PATIENCE_MS = 60_000;
/** As long as a kubelet takes to start a container again. */
const AWAY_MS = 2_000;

export async function startReplicas(options: ReplicasOptions): Promise<Replicas> {
  const { directory, count, start } = options;
  const all = Array.from({ length: count }, (_, index): Replica => {
    const files = runFiles(join(directory, `replica-${index}`));
    mkdirSync(files.directory);
    writeFileSync(files.operatorPort, '0\n');
    return { files, running: undefined };
  });
  for (const replica of all) replica.running = await start(replica.files);
  return new EndedReplicas(options, all);
}

class EndedReplicas implements Replicas {
  readonly #options: ReplicasOptions;
  readonly #all: readonly Replica[];

  constructor(options: ReplicasOptions, all: readonly Replica[]) {
    this.#options = options;
    this.#all = all;
  }

  address(): string {
    const found = this.#all.find(({ running }) => running !== undefined);
    return found?.running?.address ?? '';
  }

  async endLeaders(times: number, until: number): Promise<readonly number[]> {
    const { start, inOrder, random, log } = this.#options;
    const ended: number[] = [];
    const begun = Date.now();
    const every = (until - begun) / times;
    for (let turn = 0; turn < times; turn += 1) {
      // At any moment of a window.
      await delay(Math.max(0, begun + every * (turn + random() / 2) - Date.now()));
      const leader = await this.#leader();
      ended.push(Date.now());
      log(`${new Date().toISOString()} the one that leads is ${inOrder ? 'stopped' : 'killed'}`);
      signalProcess(leader.running?.pid ?? 0, inOrder ? 'SIGTERM' : 'SIGKILL');
      await leader.running?.exited;
      keepLog(leader.files.operatorLog);
      leader.running = undefined;
      await delay(AWAY_MS);
      leader.running = await start(leader.files);
    }
    return ended;
  }

  async stop(): Promise<void> {
    for (const { running } of this.#all) await running?.stop();
  }

  async #leader(): Promise<Replica> {
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      const found = this.#all.find(
        ({ files, running }) =>
          running !== undefined &&
          readFileSync(files.operatorLog, 'utf8').includes('this process leads'),
      );
      if (found !== undefined) return found;
      if (Date.now() > deadline) throw new Error('accuracy: no replica leads');
      await delay(100);
    }
  }
}

/** Each start begins the log anew; what went before is of use when the run is looked at afterwards. */
export function keepLog(operatorLog: string): void {
  appendFileSync(operatorLog.replace(/\.log$/u, '.earlier.log'), readFileSync(operatorLog));
}

/** Ends of windows that are missing between the first that was billed and the last; a kill may take the report of one that is billed. */
export function missingBetween(events: readonly ReceivedEvent[]): readonly string[] {
  const ends = new Set(events.map(({ window_end: end }) => Date.parse(end)));
  const missing: string[] = [];
  for (let end = Math.min(...ends); end < Math.max(...ends); end += WINDOW_MS) {
    if (!ends.has(end)) missing.push(new Date(end).toISOString());
  }
  return missing;
}

/**
 * How late the window was closed that was due next after each moment, in seconds: after its end and the settling
 * delay.
 */
export function lateAfter(
  moments: readonly number[],
  windows: readonly ClosedWindow[],
  settlingMs: number,
): readonly number[] {
  const closed = ofPods(windows);
  return moments.map((moment) => {
    const next = closed
      .filter(({ end }) => end + settlingMs >= moment)
      .reduce((first, each) => (each.end < first.end ? each : first));
    return (next.closedAt - next.end - settlingMs) / 1_000;
  });
}

function ofPods(windows: readonly ClosedWindow[]): readonly ClosedWindow[] {
  return windows.filter(({ scopes }) => scopes.includes('pods'));
}
