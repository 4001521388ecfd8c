import type { LateBiller } from '../../destinations/late.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { retryDelayMs } from '../delivery-result.ts';
import { IDLE_LANE, type LaneReport } from '../lanes/parked-lane.ts';
import type { TenantDirectory } from '../lanes/tenant-directory.ts';
import type { StoredLine } from '../records/late-line.ts';
import { type LateLines, lateLineOf } from './late-lines.ts';

/** How long a line takes in usage before it is billed. */
const GATHER_MS = 3_600_000;
/** How often a line is tried again that the billing system does not take. */
const REFUSED_MS = 3_600_000;

export interface LateLane {
  step(signal: AbortSignal): Promise<LaneReport>;
  /** Milliseconds until there is something to do; undefined when there is nothing. */
  dueIn(): number | undefined;
}

export interface LateLaneOptions {
  readonly biller: LateBiller | undefined;
  readonly lines: LateLines;
  readonly directory: Pick<TenantDirectory, 'find'>;
  /** Of a tenant that goes a line is billed at once. */
  readonly isLeaving: (tenant: string) => boolean;
  readonly clock: Clock;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly onRefused: (line: StoredLine, reason: string) => void;
}

/** Bills lines of late usage, one in a step, each once it has gathered for an hour. */
export function createLateLane(options: LateLaneOptions): LateLane {
  const { biller, lines, directory, isLeaving, clock, random, onRefused } = options;
  const retryAt = new Map<string, number>();
  let failures = 0;

  const dueAt = (line: StoredLine): number => {
    const isGathering = line.state === 'open' && !isLeaving(line.tenant);
    const gathered = isGathering ? line.openedAt + GATHER_MS : clock.now();
    return Math.max(gathered, retryAt.get(line.id) ?? 0);
  };
  const bill = async (
    by: LateBiller,
    line: StoredLine,
    signal: AbortSignal,
  ): Promise<LaneReport> => {
    const postpone = (ms: number): LaneReport => {
      retryAt.set(line.id, clock.now() + ms);
      return { ...IDLE_LANE, moved: true };
    };
    const fail = (afterMs = 0): LaneReport => {
      failures += 1;
      return postpone(Math.max(afterMs, retryDelayMs(failures, random)));
    };
    if ((await lines.close(line)).kind === 'failed') return fail();
    const asked = lateLineOf(line);
    const tenant = await directory.find(line.tenant);
    const outcome =
      asked.minor === 0n
        ? ({ kind: 'billed', reference: 'nothing' } as const)
        : await by.bill(tenant, asked, signal);
    // What a key may not do with invoices says nothing of usage, which goes on.
    if (outcome.kind === 'rejected' || outcome.kind === 'hold') {
      lines.refused(line, outcome.reason);
      onRefused(line, outcome.reason);
      return postpone(REFUSED_MS);
    }
    if (outcome.kind === 'retry') return fail(outcome.afterMs);
    if ((await lines.billed(line, outcome.reference)) !== undefined) return fail();
    failures = 0;
    retryAt.delete(line.id);
    return { ...IDLE_LANE, moved: true };
  };

  return {
    step: async (signal) => {
      if (biller === undefined) return IDLE_LANE;
      const due = lines.waiting().find((line) => dueAt(line) <= clock.now());
      return due === undefined ? IDLE_LANE : bill(biller, due, signal);
    },
    dueIn: () => {
      const times = biller === undefined ? [] : lines.waiting().map(dueAt);
      if (times.length === 0) return undefined;
      return Math.max(0, Math.min(...times) - clock.now());
    },
  };
}
