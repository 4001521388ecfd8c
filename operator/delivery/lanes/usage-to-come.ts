import type { Clock } from '../../telemetry/clock.ts';
import type { TenantSource } from './tenant-directory.ts';

/** Something of a tenant that ends at a destination, and may only end after the usage that belongs to it. */
export interface Ending {
  readonly tenant: string;
  /** The ledger's head by which all of it that could be measured was there. */
  readonly sequence: number;
  /** From when on the rest is waited for, milliseconds since the epoch. */
  readonly since: number;
}

/**
 * Whether usage is still to come before something ends: the cursor has not passed it, some of it is set
 * aside, or a gap is still to be measured. For the latter two it waits MAX_BACKFILL at most. Whoever asks
 * for many tenants at once brings what tells of their gaps.
 */
export type UsageToCome = (
  ending: Ending,
  cursor: number,
  isSetAside: () => boolean | Promise<boolean>,
  hasOpenGaps?: (tenant: string) => boolean,
) => Promise<boolean>;

export function createUsageToCome(options: {
  readonly tenants: Pick<TenantSource, 'openGaps'>;
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
