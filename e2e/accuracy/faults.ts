import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import type { RunningOperator } from '../local/operator-process.ts';
import { signalProcess } from '../processes/pid-file.ts';
import { ARRIVAL_MS, type Blind, WATCHED } from './figures.ts';
import type { StopScene } from './stops.ts';

export interface FaultOptions {
  readonly plane: Pick<ControlPlane, 'stopApiServer' | 'startApiServer'>;
  readonly operatorLog: string;
  readonly operator: () => RunningOperator;
  readonly restartOperator: () => Promise<void>;
  /** What changes while the operator is down. */
  readonly stops: StopScene;
  readonly random: () => number;
  readonly log: (line: string) => void;
}

const KINDS = ['operator', 'API server', 'both'] as const;
/** The journal is written with every window of ten seconds, which is closed nine seconds after its end. */
const JOURNAL_AGE_MS = 30_000;
const LIST_TIMEOUT_MS = 180_000;
/** A watch that has lost the API server says so within this. */
const SILENCE_MS = 20_000;
/** An API server that is told to stop keeps its watches open meanwhile, and nobody can write: less than the settling delay. */
const STOP_GRACE_MS = 2_000;

/**
 * Kills the operator, restarts the API server (its watches forget what was, and resume only by a
 * list), or both at once, in turns, until `until`. Gives the stretches that nobody may have seen: those
 * after which the operator's own log says that a watch could not go on.
 */
export async function injectFaults(
  options: FaultOptions,
  until: number,
): Promise<readonly Blind[]> {
  const { random, log } = options;
  const blinds: Blind[] = [];
  for (let slice = 0; ; slice += 1) {
    const pause = 15_000 + 20_000 * random();
    if (Date.now() + pause > until) return blinds;
    const kind = KINDS[slice % KINDS.length] ?? 'operator';
    if (kind !== 'API server') await options.stops.prepare();
    await delay(pause);
    log(`${new Date().toISOString()} fault: ${kind}`);
    blinds.push(
      kind === 'operator'
        ? await stopOperator(options, 6_000 * random())
        : await stopApiServer(options, kind === 'both'),
    );
  }
}

/** Kills the operator once, in the middle of the time until `until`, and starts it again after `stopMs`. */
export async function stopOnce(
  options: FaultOptions,
  stopMs: number,
  until: number,
): Promise<readonly Blind[]> {
  await options.stops.prepare();
  await delay(Math.max(0, (until - Date.now() - stopMs) / 2));
  options.log(`${new Date().toISOString()} fault: the operator is down for ${stopMs / 1_000} s`);
  return [await stopOperator(options, stopMs)];
}

/** The operator is killed, and goes on with its journal after `downMs`. */
async function stopOperator(options: FaultOptions, downMs: number): Promise<Blind> {
  const begun = Date.now();
  await kill(options);
  const ended = Date.now();
  await Promise.all([delay(downMs), options.stops.change()]);
  const down = { from: ended, to: Date.now() };
  await options.restartOperator();
  await watchesAgain(options, 0);
  // One that resumes is told soon whether its version is still known.
  await delay(ARRIVAL_MS);
  await watchesAgain(options, 0);
  const from = begun - JOURNAL_AGE_MS;
  const now = Date.now();
  return {
    from,
    to: now + ARRIVAL_MS,
    down,
    unreported: { from, to: now },
    kinds: expired(options),
  };
}

/** The API server is restarted, and knows no version of before. */
async function stopApiServer(options: FaultOptions, withOperator: boolean): Promise<Blind> {
  const { plane } = options;
  const seen = timesListed(options);
  const begun = Date.now();
  if (withOperator) await kill(options);
  const ended = Date.now();
  await plane.stopApiServer(STOP_GRACE_MS);
  await plane.startApiServer();
  if (withOperator) await options.stops.change();
  const down = { from: ended, to: Date.now() };
  const restarted = await watchesAgain(options, seen);
  const from = begun - (restarted ? JOURNAL_AGE_MS : ARRIVAL_MS);
  const now = Date.now();
  return {
    from,
    to: now + ARRIVAL_MS,
    // An operator that went on had been told of all that was there before.
    unreported: { from: restarted || withOperator ? begun - JOURNAL_AGE_MS : begun, to: now },
    kinds: WATCHED,
    ...(withOperator && { down }),
  };
}

async function kill({ operator }: FaultOptions): Promise<void> {
  const { pid, exited } = operator();
  signalProcess(pid, 'SIGKILL');
  await exited;
}

/** How often the operator has said that it sees pods; a start begins its log anew. */
function timesListed({ operatorLog }: FaultOptions): number {
  return readFileSync(operatorLog, 'utf8').split('[controller] watching pods').length - 1;
}

/** The last that was said of the watch of pods is that it failed. */
function failed({ operatorLog }: FaultOptions): boolean {
  const log = readFileSync(operatorLog, 'utf8');
  return log.lastIndexOf('cannot watch pods') > log.lastIndexOf('[controller] watching pods');
}

/** The kinds whose watches have found their version too old since the operator started. */
function expired({ operatorLog }: FaultOptions): Blind['kinds'] {
  const log = readFileSync(operatorLog, 'utf8');
  return WATCHED.filter((kind) => log.includes(`cannot watch ${kind}`));
}

/**
 * Waits until the operator sees pods again. One that was killed, or that lost its lease because the
 * API server was away too long, is started as Kubernetes would; true when it was.
 */
async function watchesAgain(options: FaultOptions, seen: number): Promise<boolean> {
  const begun = Date.now();
  const deadline = begun + LIST_TIMEOUT_MS;
  let restarted = false;
  while (restarted ? timesListed(options) === 0 : timesListed(options) <= seen) {
    // A short absence costs the busiest watch nothing: it goes on, and there is nothing to say.
    if (!restarted && seen > 0 && Date.now() - begun > SILENCE_MS && !failed(options)) return false;
    if (Date.now() > deadline) throw new Error('accuracy: the operator does not watch pods again');
    const over = await Promise.race([options.operator().exited, delay(200)]);
    if (over === undefined) continue;
    restarted = true;
    await options.restartOperator();
  }
  return restarted;
}
