import type { Destination } from '../../destinations/destination.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { CauseLog } from '../../telemetry/cause-log.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { type ArrivalCheck, createArrivalCheck } from '../lanes/arrival-check.ts';
import { type ChangeLane, type ChangeLaneOptions, createChangeLane } from '../lanes/change-lane.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import { type AskSumsOptions, createAskSums } from './ask-sums.ts';

/** What the lane of changes needs that the feeder has already. */
export interface ChangePartsOptions
  extends Omit<AskSumsOptions, 'destination'>,
    Pick<
      ChangeLaneOptions,
      'provisioner' | 'directory' | 'parked' | 'usageToCome' | 'isLeaving' | 'random'
    > {
  readonly name: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly destination: Destination;
  readonly records: DeliveryRecords;
  readonly log: CauseLog;
  /** There is something to do. */
  readonly wake: () => void;
}

/** The lane that makes changes of plan, with the question whether the destination has added up before. */
export function createChangeParts(options: ChangePartsOptions): {
  readonly changeLane: ChangeLane;
  readonly arrived: ArrivalCheck;
} {
  const { name, clock, log, logger, wake } = options;
  const arrived = createArrivalCheck({
    clock,
    ...omitUndefined({ ask: createAskSums(options) }),
    onAnswer: (tenant) => {
      changeLane.wake(tenant);
      wake();
    },
    onGivenUp: (tenant) =>
      logger.warn(
        `[${name}] the sums of tenant ${tenant} still differ after half an hour; its plan is changed all the same`,
      ),
  });
  const changeLane = createChangeLane({
    ...options,
    arrived,
    onDone: (tenant, { current, wanted }, from) =>
      logger.info(
        `[${name}] tenant ${tenant} changed from plan ${current} to ${wanted} as of ${new Date(from).toISOString()}`,
      ),
    onRefused: (tenant, reason) =>
      log.warn(`change ${tenant}`, `[${name}] plan of tenant ${tenant} not changed: ${reason}`),
  });
  return { changeLane, arrived };
}
