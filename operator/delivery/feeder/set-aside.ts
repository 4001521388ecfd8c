import { least } from '../../model/extremes.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { LaneReport } from '../lanes/parked-lane.ts';
import type { FeederParts } from './feeder-parts.ts';

/** What a feeder has set aside, in its lanes: what earlier processes left of it, what may go, and when more may. */
export class SetAside {
  readonly #parts: FeederParts;
  readonly #onServed: (report: LaneReport) => void;
  /** What was set aside by earlier processes is in memory. */
  #loaded = false;

  /** `onServed` is told what became of events, lane by lane. */
  constructor(parts: FeederParts, onServed: (report: LaneReport) => void) {
    this.#parts = parts;
    this.#onServed = onServed;
  }

  /** Reads what earlier processes have set aside; once. */
  async load(): Promise<void> {
    if (this.#loaded) return;
    const { deadLetters, acknowledgements, parked, offboarding, changes, replayLane, lateLines } =
      this.#parts;
    await changes.load();
    await lateLines.load();
    await deadLetters.load();
    await acknowledgements.load();
    await parked.load();
    await offboarding.load();
    replayLane.wake();
    this.#loaded = true;
  }

  /** Sends what may go now. */
  async serve(signal: AbortSignal): Promise<Pick<LaneReport, 'moved' | 'blocked'>> {
    const { parkedLane, replayLane } = this.#parts;
    const parked = await parkedLane(signal);
    this.#onServed(parked);
    if (parked.blocked !== undefined) return parked;
    const replayed = await replayLane.step(signal);
    this.#onServed(replayed);
    const moved = parked.moved || replayed.moved;
    return { moved, ...omitUndefined({ blocked: replayed.blocked }) };
  }

  /** In how many milliseconds something may go that waits now; undefined while nothing does. */
  dueIn(): number | undefined {
    const { parked, replayLane, offboarding, changeLane, lateLane } = this.#parts;
    const lanes = [parked, replayLane, offboarding, changeLane, lateLane];
    const due = lanes.map((lane) => lane.dueIn()).filter((time) => time !== undefined);
    return due.length === 0 ? undefined : least(due);
  }
}
