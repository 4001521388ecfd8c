import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Ledger } from '../ledger.ts';
import type { Failpoint } from '../leveldb/failpoints.ts';
import { windowSize } from './writer-process.ts';

/** The newest window that the process reported as stored. */
export interface Acknowledged {
  readonly window: number;
  readonly head: number;
}

export interface CrashPlan {
  readonly directory: string;
  readonly segmentEvents: number;
  /** Killed from outside this many acknowledged windows after its start… */
  readonly afterWindows?: number;
  /** …and that many milliseconds later. */
  readonly delayMs?: number;
  /** Kills itself at this step. */
  readonly failpoint?: { readonly step: Failpoint; readonly hit: number };
  /** Further environment variables. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** Runs the writer process until it dies and returns what it acknowledged; undefined if nothing. */
export async function crashWriter(plan: CrashPlan): Promise<Acknowledged | undefined> {
  const { directory, segmentEvents, failpoint, afterWindows = Number.POSITIVE_INFINITY } = plan;
  const script = join(import.meta.dirname, 'writer-process.ts');
  const step = failpoint === undefined ? [] : [failpoint.step, String(failpoint.hit)];
  const child = spawn(process.execPath, [script, directory, String(segmentEvents), ...step], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...plan.environment },
  });
  const errors: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  const { promise: ended, resolve } = Promise.withResolvers<NodeJS.Signals | null>();
  child.once('close', (_, signal) => resolve(signal));

  let acknowledged: Acknowledged | undefined;
  let windows = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    acknowledged = JSON.parse(line) as Acknowledged;
    windows += 1;
    if (windows === afterWindows) setTimeout(() => child.kill('SIGKILL'), plan.delayMs ?? 0);
  }
  if ((await ended) !== 'SIGKILL') {
    throw new Error(`writer process: ended by itself: ${Buffer.concat(errors).toString()}`);
  }
  return acknowledged;
}

/**
 * The defects of a ledger that the writer process left behind, as text; empty if there are none.
 */
export async function inspectAfterCrash(
  ledger: Ledger,
  acknowledged: Acknowledged | undefined,
): Promise<string[]> {
  const problems = [...ledger.stats().problems];
  const counts = new Map<string, number>();
  const ids = new Set<string>();
  let expected = ledger.lowWater() + 1;
  for (;;) {
    const page = await ledger.read(expected - 1, 1_000);
    if (page.kind === 'failed') return [...problems, page.message];
    if (page.events.length === 0) break;
    for (const { sequence, event } of page.events) {
      if (sequence !== expected) problems.push(`sequence ${sequence} instead of ${expected}`);
      if (ids.has(event.id)) problems.push(`id twice: ${event.id}`);
      ids.add(event.id);
      counts.set(event.window_start, (counts.get(event.window_start) ?? 0) + 1);
      expected = sequence + 1;
    }
  }
  const journal = Number((await ledger.record('journal')) ?? 0);
  const sizes = [...counts.values()];
  for (const [index, size] of sizes.entries()) {
    const window = journal - sizes.length + 1 + index;
    const partlyDeleted = index === 0 && ledger.lowWater() > 0;
    if (size !== windowSize(window) && !partlyDeleted) {
      problems.push(`window ${window} has ${size} events`);
    }
  }
  const cursor = ledger.cursors().find(({ destination }) => destination === 'noop')?.sequence ?? 0;
  if (acknowledged !== undefined) {
    if (ledger.head() < acknowledged.head) problems.push(`head ${ledger.head()} is lost`);
    if (journal < acknowledged.window) problems.push(`journal is at ${journal}`);
    if (cursor < acknowledged.head) problems.push(`cursor went back to ${cursor}`);
  }
  problems.push(...(await ledger.verify()).errors);
  return problems;
}
