import type { Settings } from '../../settings/settings.ts';
import { type NodeSettings, sameNodeSettings } from '../timelines/node-state.ts';
import type { Observation } from '../timelines/observation.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';

/** Reads the timelines of this cluster's nodes again when the settings in force have changed. */
export class NodeRefresh {
  readonly #options;
  /** The settings of the last reading. */
  #readBy: NodeSettings | undefined;

  constructor(options: {
    readonly observation: Pick<Observation, 'nodes' | 'gpuNodes'>;
    readonly settings: () => Settings;
    readonly clock: Clock;
  }) {
    this.#options = options;
  }

  /**
   * Call it once nodes are listed, because the journal's timelines may come from other settings.
   * Returns true if settings changed, and on the first call.
   */
  async refresh(): Promise<boolean> {
    const { observation, clock, settings } = this.#options;
    const { metering } = settings();
    const before = this.#readBy;
    this.#readBy = metering;
    if (before !== undefined && sameNodeSettings(before, metering)) return false;
    const slice = new TimeSlice(clock);
    const now = (): number => clock.now();
    await slice.take(observation.nodes.refreshing(now));
    await slice.take(observation.gpuNodes.refreshing(now));
    return true;
  }
}
