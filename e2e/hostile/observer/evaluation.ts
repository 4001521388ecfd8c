import type { WorstStalls } from './stalls.ts';

/** What can go wrong, as the last line counts it. */
export type Failing = 'ended' | 'misbilled' | 'starved' | 'leaked';

export interface Failure {
  readonly kind: Failing;
  readonly what: string;
  /** The runs whose attacks were under way. */
  readonly runs: readonly number[];
}

/** The last line. */
export interface Totals {
  readonly runs: number;
  readonly ended: number;
  readonly misbilled: number;
  readonly starved: number;
  readonly leaked: number;
  /** The longest that the operator's main thread kept a timer waiting; what the machine is to blame for is left out. */
  readonly worst_stall_ms: number;
  readonly peak_rss_mib: number;
  /** The same of stalls in which the machine stood still for 100 ms or longer, and what had gathered was done at once. */
  readonly worst_disturbed_stall_ms: number;
  /** The longest with what the machine is to blame for. */
  readonly worst_stall_raw_ms: number;
  /** The longest that the machine stood still, as the witness saw it. */
  readonly worst_machine_stall_ms: number;
}

/** From when on the main thread holds others up, milliseconds. */
export const LONGEST_STALL_MS = 250;

/** Collects failures, each told once when it happens. */
export class Decision {
  readonly #counts = { ended: 0, misbilled: 0, starved: 0, leaked: 0 };
  readonly #reported = new Set<string>();
  readonly #active: () => readonly number[];
  readonly #report: (failure: Failure) => void;
  #worst: WorstStalls = { own: 0, disturbed: 0, raw: 0, machine: 0 };

  constructor(active: () => readonly number[], report: (failure: Failure) => void) {
    this.#active = active;
    this.#report = report;
  }

  fail(kind: Failing, what: string): void {
    this.#counts[kind] += 1;
    const line = `${kind} ${what.slice(0, 200)}`;
    if (this.#reported.has(line)) return;
    this.#reported.add(line);
    this.#report({ kind, what, runs: this.#active() });
  }

  /** True when the operator's own part is too long. */
  stall({ own, disturbed, raw, machine }: WorstStalls): boolean {
    const before = this.#worst;
    this.#worst = {
      own: Math.max(before.own, own),
      disturbed: Math.max(before.disturbed, disturbed),
      raw: Math.max(before.raw, raw),
      machine: Math.max(before.machine, machine),
    };
    return own >= LONGEST_STALL_MS;
  }

  totals(runs: number, peakRssMiB: number): Totals {
    return {
      runs,
      ...this.#counts,
      worst_stall_ms: Math.round(this.#worst.own),
      peak_rss_mib: Math.round(peakRssMiB),
      worst_disturbed_stall_ms: Math.round(this.#worst.disturbed),
      worst_stall_raw_ms: Math.round(this.#worst.raw),
      worst_machine_stall_ms: Math.round(this.#worst.machine),
    };
  }
}

/** Whether nothing went wrong. */
export function isSound(totals: Totals, memoryLimitMiB: number): boolean {
  const { ended, misbilled, starved, leaked } = totals;
  if (ended + misbilled + starved + leaked > 0) return false;
  return totals.worst_stall_ms < LONGEST_STALL_MS && totals.peak_rss_mib <= memoryLimitMiB;
}
