import type { Settings } from '../../settings/settings.ts';
import { type NodeSettings, sameNodeSettings } from '../timelines/node-state.ts';
import type { Observation } from '../timelines/observation.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';

export interface NodeRefreshOptions {
  readonly observation: Pick<Observation, 'nodes' | 'gpuNodes'>;
  readonly settings: () => Settings;
  readonly clock: Clock;
}

/** Reads the timelines of this cluster's nodes by the settings in force. */
export class NodeRefresh {
  readonly #options: NodeRefreshOptions;
  /** The settings that they were last read by. */
  #readBy: NodeSettings | undefined;

  constructor(options: NodeRefreshOptions) {
    this.#options = options;
  }

  /**
   * To be called once nodes are listed. What came out of the journal may have been read by other settings. Gives whether
   * settings have changed, or were looked at for the first time.
   */
  async refresh(): Promise<boolean> {
    const { observation, clock, settings } = this.#options;
    const { metering } = settings();
    const before = this.#readBy;
    this.#readBy = metering;
    if (before !== undefined && sameNodeSettings(before, metering)) return false;
    const turn = new TimeSlice(clock);
    const now = (): number => clock.now();
    await turn.take(observation.nodes.refreshing(now));
    await turn.take(observation.gpuNodes.refreshing(now));
    return true;
  }
}
