import type { DestinationSettings } from '../../config/settings.ts';
import type { Destination } from '../../destinations/destination.ts';
import { isBilledApart } from '../../destinations/late.ts';
import type { CauseLog } from '../../telemetry/cause-log.ts';
import { createLateBilling, type LateBillingOptions } from '../late/late-billing.ts';
import { createLateLane, type LateLane, type LateLaneOptions } from '../late/late-lane.ts';
import { createLateGate, type LateGate, type LateGateOptions } from './late-gate.ts';

/** What late usage needs that the feeder has already. */
export interface LatePartsOptions
  extends Omit<LateGateOptions, 'late' | 'lines' | 'billing'>,
    Omit<LateBillingOptions, 'biller' | 'policy' | 'lines'>,
    Omit<LateLaneOptions, 'biller' | 'onRefused'> {
  readonly settings: Pick<DestinationSettings, 'name' | 'late'>;
  readonly destination: Pick<Destination, 'late'>;
  readonly log: CauseLog;
}

/** What becomes of late usage at a destination: the gate that finds it, and the lane that bills it. */
export function createLateParts(options: LatePartsOptions): {
  readonly gate: LateGate;
  readonly lane: LateLane;
} {
  const { settings, destination, log } = options;
  const { name, late } = settings;
  const biller = destination.late;
  const billing =
    isBilledApart(late) && biller !== undefined
      ? createLateBilling({ ...options, biller, policy: late })
      : undefined;
  return {
    gate: createLateGate({ ...options, late, billing }),
    lane: createLateLane({
      ...options,
      biller,
      onRefused: (line, reason) =>
        log.warn(
          `late ${line.tenant}`,
          `[${name}] late usage of tenant ${line.tenant} is not billed: ${reason}`,
        ),
    }),
  };
}
