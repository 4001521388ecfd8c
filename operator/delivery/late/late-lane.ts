import type { LateBiller } from '../../destinations/late.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { retryDelayMs } from '../delivery-result.ts';
import type { OffboardRequests } from '../lanes/offboarding.ts';
import { IDLE_LANE, type LaneReport } from '../lanes/parked-lane.ts';
import type { TenantDirectory } from '../lanes/tenant-directory.ts';
import type { StoredLine } from '../records/late-line.ts';
import { type LateLines, lateLineOf } from './late-lines.ts';

/** How long a line collects usage before it is billed. */
const GATHER_MS = 3_600_000;
/** Interval between attempts to bill a line that the billing system refuses. */
const REFUSED_MS = 3_600_000;

/** Bills lines of late usage, one in each step, after each has collected usage for an hour. */
export class LateLane {
  readonly #options;
  readonly #retryAt = new Map<string, number>();
  #failures = 0;

  constructor(options: {
    readonly biller: LateBiller | undefined;
    readonly lines: LateLines;
    readonly directory: Pick<TenantDirectory, 'find'>;
    /** Lines of a leaving tenant are billed at once. */
    readonly leaving: Pick<OffboardRequests, 'has'>;
    readonly clock: Clock;
    /** Numbers in [0, 1). */
    readonly random: () => number;
    readonly onRefused: (line: StoredLine, reason: string) => void;
  }) {
    this.#options = options;
  }

  async step(signal: AbortSignal): Promise<LaneReport> {
    const { biller, lines, clock } = this.#options;
    if (biller === undefined) return IDLE_LANE;
    const due = lines.waiting().find((line) => this.#dueAt(line) <= clock.now());
    return due === undefined ? IDLE_LANE : this.#bill(biller, due, signal);
  }

  /** Milliseconds until the next line is due; undefined without lines. */
  dueIn(): number | undefined {
    const { biller, lines, clock } = this.#options;
    const times = biller === undefined ? [] : lines.waiting().map((line) => this.#dueAt(line));
    return times.length === 0 ? undefined : Math.max(0, Math.min(...times) - clock.now());
  }

  #dueAt(line: StoredLine): number {
    const { leaving, clock } = this.#options;
    const isGathering = line.state === 'open' && !leaving.has(line.tenant);
    const gathered = isGathering ? line.openedAt + GATHER_MS : clock.now();
    return Math.max(gathered, this.#retryAt.get(line.id) ?? 0);
  }

  async #bill(biller: LateBiller, line: StoredLine, signal: AbortSignal): Promise<LaneReport> {
    const { lines, directory, onRefused } = this.#options;
    if ((await lines.close(line)).kind === 'failed') return this.#fail(line);
    const lateLine = lateLineOf(line);
    const tenant = await directory.find(line.tenant);
    const outcome =
      lateLine.minor === 0n
        ? ({ kind: 'billed', reference: 'nothing' } as const)
        : await biller.bill(tenant, lateLine, signal);
    // The API key may lack rights for invoices only. Usage delivery continues.
    if (outcome.kind === 'rejected' || outcome.kind === 'blocked') {
      lines.refused(line, outcome.reason);
      onRefused(line, outcome.reason);
      return this.#postpone(line, REFUSED_MS);
    }
    if (outcome.kind === 'retry') return this.#fail(line, outcome.afterMs);
    if ((await lines.billed(line, outcome.reference)) !== undefined) return this.#fail(line);
    this.#failures = 0;
    this.#retryAt.delete(line.id);
    return { ...IDLE_LANE, moved: true };
  }

  #fail(line: StoredLine, afterMs = 0): LaneReport {
    this.#failures += 1;
    const delay = retryDelayMs(this.#failures, this.#options.random);
    return this.#postpone(line, Math.max(afterMs, delay));
  }

  #postpone({ id }: StoredLine, ms: number): LaneReport {
    this.#retryAt.set(id, this.#options.clock.now() + ms);
    return { ...IDLE_LANE, moved: true };
  }
}
