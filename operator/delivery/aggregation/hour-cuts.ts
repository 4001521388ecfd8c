import pLimit from 'p-limit';
import type { Destination } from '../../destinations/destination.ts';
import type { StoredEvent } from '../../ledger/ledger.ts';
import { greatest, least } from '../../model/extremes.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { BlockReason, QueuedEvent } from '../delivery-result.ts';
import type { PlanChanges } from '../lanes/plan-changes.ts';
import type { Cuts } from '../records/aggregated-range.ts';
import { HOUR_MS, hourEnd } from './aggregator.ts';

/** How far ahead it is asked when what bills a tenant changes. */
const AHEAD_MS = 2 * HOUR_MS;
/** No usage comes later than that. */
const LATEST_MS = 35 * 24 * HOUR_MS;
const CONCURRENT_QUESTIONS = 8;

export interface HourCutsOptions {
  readonly destination: Pick<Destination, 'boundaries'>;
  readonly changes: Pick<PlanChanges, 'momentsOf'>;
  readonly describe: (tenant: string) => Promise<Tenant>;
  readonly clock: Clock;
}

/** Knows the moments across which nothing of a tenant may be added up: what bills it is another thing after them. */
export class HourCuts {
  readonly #options: HourCutsOptions;
  /** When what bills a tenant changes next, as far as is known. */
  readonly #nextBoundary = new Map<string, number>();

  constructor(options: HourCutsOptions) {
    this.#options = options;
  }

  /** Adds the cuts of tenants that are new to those that are given. */
  async learn(
    stored: readonly StoredEvent[],
    cuts: Record<string, readonly number[]>,
    signal: AbortSignal,
  ): Promise<BlockReason | undefined> {
    const { destination, describe, changes, clock } = this.#options;
    const added = new Set(
      stored.map(({ event }) => event.tenant).filter((tenant) => cuts[tenant] === undefined),
    );
    let blocked: BlockReason | undefined;
    await pLimit(CONCURRENT_QUESTIONS).map([...added], async (tenant) => {
      if (blocked !== undefined) return;
      // Usage of earlier hours may be among what is read on.
      const now = clock.now();
      const period = { from: now - LATEST_MS, to: now + AHEAD_MS };
      const told = (await destination.boundaries?.(await describe(tenant), period, signal)) ?? {
        kind: 'boundaries',
        at: [],
      };
      if (told.kind === 'retry' || told.kind === 'hold') {
        blocked = told;
        return;
      }
      const known = told.kind === 'boundaries' ? told.at : [];
      const ahead = known.filter((at) => at > clock.now());
      if (ahead.length > 0) this.#nextBoundary.set(tenant, least(ahead));
      else this.#nextBoundary.delete(tenant);
      cuts[tenant] = [...new Set([...known, ...changes.momentsOf(tenant)])].toSorted(
        (a, b) => a - b,
      );
    });
    return blocked;
  }

  /** Whether what bills somebody has changed by `passed`, inside of an hour; each change is told once. */
  passWithinHour(passed: number): boolean {
    const over = [...this.#nextBoundary].filter(([, at]) => at <= passed);
    for (const [tenant] of over) this.#nextBoundary.delete(tenant);
    return over.some(([, at]) => at % HOUR_MS !== 0);
  }
}

/** Without what lies outside of the hours of any sum. */
export function insideOf(cuts: Cuts, sums: readonly QueuedEvent[]): Cuts {
  if (sums.length === 0) return {};
  const starts = sums.map(({ event }) => Date.parse(event.window_start));
  const [from, to] = [least(starts), hourEnd(greatest(starts))];
  return Object.fromEntries(
    Object.entries(cuts).flatMap(([tenant, moments]) => {
      const inside = moments.filter((at) => at > from && at < to && at % HOUR_MS !== 0);
      return inside.length === 0 ? [] : [[tenant, inside]];
    }),
  );
}
