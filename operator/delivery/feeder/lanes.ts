import { least } from '../../model/extremes.ts';
import type { CauseLog } from '../../telemetry/cause-log.ts';
import type { BlockReason } from '../delivery-result.ts';
import { ChangeLane } from '../lanes/change-lane.ts';
import { Offboarding } from '../lanes/offboarding.ts';
import { type LaneReport, ParkedLane } from '../lanes/parked-lane.ts';
import { ReplayLane } from '../lanes/replay-lane.ts';
import type { TenantDirectory } from '../lanes/tenant-directory.ts';
import type { TenantProvisioner } from '../lanes/tenant-provisioner.ts';
import { createUsageToCome } from '../lanes/usage-to-come.ts';
import { LateLane } from '../late/late-lane.ts';
import type { Reconcile } from '../operations/reconcile.ts';
import type { FeedRecords } from './feed-records.ts';
import type { FeederOptions } from '../delivery-options.ts';
import type { SendPass } from './send-pass.ts';

/**
 * The work outside the ledger's order: events of parked tenants, replays, lines of late usage,
 * leaving tenants, and changes of plan.
 */
export class Lanes {
  readonly replays: ReplayLane;
  readonly offboarding: Offboarding;
  readonly #feed: FeedRecords;
  readonly #parked: ParkedLane;
  readonly #late: LateLane;
  readonly #changes: ChangeLane;
  readonly #onServed: (report: LaneReport) => void;

  /** `onServed` receives the report of each lane that sends events. */
  constructor(
    options: FeederOptions & {
      readonly log: CauseLog;
      readonly directory: TenantDirectory;
      readonly provisioner: TenantProvisioner;
      readonly sendPass: SendPass;
      readonly reconcile: Reconcile;
      /** Wakes the feeder. */
      readonly wake: () => void;
    },
    feed: FeedRecords,
    onServed: (report: LaneReport) => void,
  ) {
    const { settings, destination, log, logger, wake } = options;
    const { name } = settings;
    const { records, deadLetters, parked, leaving, changes, pending, settlements } = feed;
    const known = { records, deadLetters, parked, leaving, changes, pending, settlements };
    const lane = { ...options, ...known };
    const ending = { ...lane, usageToCome: createUsageToCome(options) };
    this.#feed = feed;
    this.#onServed = onServed;
    this.#parked = new ParkedLane(lane);
    this.replays = new ReplayLane(lane);
    this.#late = new LateLane({
      ...lane,
      biller: destination.late,
      lines: feed.lateLines,
      onRefused: ({ tenant }, reason) =>
        log.warn(
          `late ${tenant}`,
          `[${name}] late usage of tenant ${tenant} is not billed: ${reason}`,
        ),
    });
    this.offboarding = new Offboarding({
      ...ending,
      onDone: (tenant) => logger.info(`[${name}] tenant ${tenant} offboarded`),
      onRefused: (tenant, reason) =>
        log.warn(`offboard ${tenant}`, `[${name}] tenant ${tenant} not offboarded: ${reason}`),
    });
    this.#changes = new ChangeLane({
      ...ending,
      onNews: wake,
      onGivenUp: (tenant) =>
        logger.warn(
          `[${name}] the sums of tenant ${tenant} still differ after half an hour; changing its plan now`,
        ),
      onDone: (tenant, { current, wanted }, from) =>
        logger.info(
          `[${name}] tenant ${tenant} changed from plan ${current} to ${wanted} as of ${new Date(from).toISOString()}`,
        ),
      onRefused: (tenant, reason) =>
        log.warn(`change ${tenant}`, `[${name}] plan of tenant ${tenant} not changed: ${reason}`),
    });
  }

  /** Takes one step in each lane: events first, then lines, offboarding and changes of plan. */
  async step(signal: AbortSignal): Promise<Pick<LaneReport, 'moved' | 'blocked'>> {
    const served = await this.#serve(signal);
    const billed = await this.#late.step(signal);
    const moved = served.moved || billed.moved;
    const position = this.#feed.pending.position();
    const blocked =
      served.blocked ??
      (await this.offboarding.step(position, signal)) ??
      (await this.#changes.step(position, signal));
    return { moved, blocked };
  }

  /** Milliseconds until the next lane is due; undefined if none waits. */
  dueIn(): number | undefined {
    const lanes = [this.#feed.parked, this.replays, this.offboarding, this.#changes, this.#late];
    const due = lanes.map((lane) => lane.dueIn()).filter((time) => time !== undefined);
    return due.length === 0 ? undefined : least(due);
  }

  /** Aborts background work. */
  stop(): void {
    this.#changes.stop();
  }

  /** Sends events that were set aside and can be sent now. */
  async #serve(
    signal: AbortSignal,
  ): Promise<{ readonly moved: boolean; readonly blocked?: BlockReason | undefined }> {
    const parked = await this.#parked.step(signal);
    this.#onServed(parked);
    if (parked.blocked !== undefined) return parked;
    const replayed = await this.replays.step(signal);
    this.#onServed(replayed);
    return { moved: parked.moved || replayed.moved, blocked: replayed.blocked };
  }
}
