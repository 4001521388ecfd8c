import type { Clock } from '../../telemetry/clock.ts';
import type { TenantLookup } from './tenant-directory.ts';

/**
 * Returns whether usage is still to come before something ends:
 *
 * 1. The cursor has not passed it.
 * 2. Some of it is set aside, for at most MAX_BACKFILL.
 * 3. A gap is still to be measured, for at most MAX_BACKFILL.
 *
 * A caller with many tenants passes `hasOpenGaps`, so that gaps are read once.
 */
export type UsageToCome = (
  ending: {
    readonly tenant: string;
    /** The ledger's head at which all of its measured usage was in the ledger. */
    readonly sequence: number;
    /** Start of the wait for the remaining usage, milliseconds since the epoch. */
    readonly since: number;
  },
  cursor: number,
  isSetAside: () => boolean | Promise<boolean>,
  hasOpenGaps?: (tenant: string) => boolean,
) => Promise<boolean>;

export function createUsageToCome(options: {
  readonly tenants: Pick<TenantLookup, 'openGaps'>;
  readonly clock: Clock;
  readonly maxBackfillMs: () => number;
}): UsageToCome {
  const { tenants, clock, maxBackfillMs } = options;
  return async ({ tenant, sequence, since }, cursor, isSetAside, hasOpenGaps) => {
    if (cursor < sequence) return true;
    if (clock.now() - since >= maxBackfillMs()) return false;
    const has = hasOpenGaps ?? tenants.openGaps?.();
    return has?.(tenant) === true || (await isSetAside());
  };
}
