import { join } from 'node:path';
import { startSideProcess } from '../side-process.ts';

/** A stretch, milliseconds of the machine's monotonic clock, which all its processes share. */
export interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** A time for which the operator's main thread let a timer wait. */
export interface Stall extends Stretch {
  /** How late the timer was, milliseconds. */
  readonly late: number;
  /** For how long of that Linux kept it, or a thread that it was waiting for, from a processor, or the hypervisor did. */
  readonly waited: number;
  /** For how long of it the thread ran. */
  readonly ran: number;
  /** For how long of it garbage was collected. */
  readonly collected: number;
}

/**
 * What the operator itself is to blame for: how late it was, less the larger of what Linux says that it had no
 * processor and what the witness saw of the machine standing still in the same time. The two may be the
 * same moments, so they are not added up: nothing is taken away twice.
 */
export function ownPart(stall: Stall, still: readonly Stretch[]): number {
  return Math.max(0, stall.late - Math.max(stall.waited, seenIn(stall, still)));
}

/** For how long of it the witness saw the machine stand still. */
function seenIn({ from, to }: Stretch, still: readonly Stretch[]): number {
  return still.reduce(
    (sum, each) => sum + Math.max(0, Math.min(to, each.to) - Math.max(from, each.from)),
    0,
  );
}

/** From then on a machine that stood still leaves so much behind that whoever goes on has a long turn. */
const DISTURBANCE_MS = 100;

/** A process that does nothing but notice that the machine stands still. */
export interface Witness {
  /** When the machine stood still since the last question. */
  take(): Promise<readonly Stretch[]>;
  stop(): void;
}

export async function startWitness(): Promise<Witness> {
  const side = await startSideProcess(join(import.meta.dirname, 'witness.ts'), {});
  return {
    take: async () => ((await side.order({})) as { readonly still: readonly Stretch[] }).still,
    stop: () => side.stop(),
  };
}

/** The longest stalls so far, milliseconds. */
export interface WorstStalls {
  readonly own: number;
  /** Of the operator's own parts, of stalls in which the machine stood still for long. */
  readonly disturbed: number;
  readonly raw: number;
  readonly machine: number;
  /** The undisturbed one of which the operator's own part is the longest. */
  readonly longest?: Stall | undefined;
}

/** Kept for stalls that are told after they are over. */
const STORED_MS = 120_000;

/** Holds the operator's stalls against what the witness saw. */
export class Stalls {
  #still: readonly Stretch[] = [];

  /** Takes in what is new; the witness must have been asked after the operator told. Gives the longest of it. */
  take(stalls: readonly Stall[], still: readonly Stretch[]): WorstStalls {
    const newest = still.at(-1)?.to ?? stalls.at(-1)?.to ?? 0;
    this.#still = [...this.#still.filter(({ to }) => to > newest - STORED_MS), ...still];
    const parts = stalls
      .map((stall) => ({
        stall,
        own: ownPart(stall, this.#still),
        isDisturbed: seenIn(stall, this.#still) >= DISTURBANCE_MS,
      }))
      .toSorted((a, b) => b.own - a.own);
    const longest = parts.find(({ isDisturbed }) => !isDisturbed);
    return {
      own: longest?.own ?? 0,
      disturbed: parts.find(({ isDisturbed }) => isDisturbed)?.own ?? 0,
      longest: longest?.stall,
      raw: most(stalls.map(({ late }) => late)),
      machine: most(still.map(({ from, to }) => to - from)),
    };
  }
}

function most(values: readonly number[]): number {
  return values.reduce((a, b) => Math.max(a, b), 0);
}
