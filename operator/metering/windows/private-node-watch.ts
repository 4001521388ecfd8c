import type { Diagnostics } from '../meters/meter-reports.ts';
import type { Window } from '../../model/window.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { CollectorMetrics } from './collector-metrics.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** A share of less node time means nothing. */
const LEAST_NODE_MS = HOUR_MS;
/** Most relabelled nodes that are stored for a tenant cluster, of the last day. */
const MOST_RELABELS = 20;

const MOST_PROBLEMS = 100;

/** What is stored for one tenant cluster, for a day. */
interface Remembered {
  /** By the start of the hour. */
  readonly hours: Map<number, { nodeMs: number; downMs: number }>;
  /** Until when each change of a label is shown. */
  readonly relabels: Map<string, number>;
  exceeds: boolean;
}

/**
 * Checks what tenants report about their private nodes with `privateNodeTrust: tenant`. It finds
 * two things that no honest machine does (docs/reference/alerts.md#meterfeedprivatenodedowntime).
 * It remembers one day, and nothing across a restart.
 * 1. Nodes are down for long, or again and again.
 * 2. Nodes become a cheaper kind.
 */
export class PrivateNodeWatch {
  readonly #options;
  readonly #tenants = new Map<string, Remembered>();

  constructor(options: {
    /** Highest share of downtime of a tenant cluster's private nodes, in percent. */
    readonly mostDownPercent: () => number;
    readonly metrics: Pick<
      CollectorMetrics,
      'privateNodeFlaps' | 'privateNodeRelabels' | 'privateNodeDowntimeExceeded'
    >;
    readonly logger: Logger;
  }) {
    this.#options = options;
  }

  /** Adds the diagnostics of a window, by tenant cluster id. */
  note(window: Window, diagnostics: ReadonlyMap<string, Diagnostics>): void {
    const { metrics } = this.#options;
    for (const [id, { privateNodeReport: report }] of diagnostics) {
      if (report === undefined) continue;
      metrics.privateNodeFlaps.inc(Math.max(0, report.flaps));
      const remembered = this.#remember(id);
      const hour = Math.floor(window.start / HOUR_MS) * HOUR_MS;
      const { nodeMs, downMs } = remembered.hours.get(hour) ?? { nodeMs: 0, downMs: 0 };
      remembered.hours.set(hour, {
        nodeMs: nodeMs + report.nodeMs,
        downMs: downMs + report.downMs,
      });
      for (const change of report.relabelled) this.#noteRelabel(id, remembered, change, window.end);
    }
    this.#review(window.end);
  }

  /** Problems for an administrator, each `what: where: "input"`. */
  problems(): readonly string[] {
    const all = [...this.#tenants].flatMap(([id, { hours, relabels, exceeds }]) => [
      ...(exceeds
        ? [
            `private nodes down for long: tenant cluster ${id}: "${percent(hours)} %" of the last day`,
          ]
        : []),
      ...[...relabels.keys()].map(
        (change) => `private node relabelled: tenant cluster ${id}: node ${change}`,
      ),
    ]);
    return all.slice(0, MOST_PROBLEMS);
  }

  #remember(id: string): Remembered {
    const known = this.#tenants.get(id);
    if (known !== undefined) return known;
    const remembered = { hours: new Map(), relabels: new Map(), exceeds: false };
    this.#tenants.set(id, remembered);
    return remembered;
  }

  #noteRelabel(id: string, { relabels }: Remembered, change: string, at: number): void {
    const { metrics, logger } = this.#options;
    metrics.privateNodeRelabels.inc();
    const isKnown = relabels.has(change);
    if (!isKnown && relabels.size >= MOST_RELABELS) return;
    relabels.set(change, at + DAY_MS);
    if (isKnown) return;
    logger.warn(
      `[metrics] tenant cluster ${id}: node ${change}: billed as such from then on, because privateNodeTrust is tenant`,
    );
  }

  #review(now: number): void {
    const { mostDownPercent, metrics, logger } = this.#options;
    for (const [id, remembered] of this.#tenants) {
      const { hours, relabels } = remembered;
      for (const hour of hours.keys()) if (hour <= now - DAY_MS) hours.delete(hour);
      for (const [change, until] of relabels) if (until <= now) relabels.delete(change);
      const exceeds = sumOf(hours).nodeMs >= LEAST_NODE_MS && percent(hours) > mostDownPercent();
      if (exceeds !== remembered.exceeds) {
        remembered.exceeds = exceeds;
        const share = `${percent(hours)} % of the last day, of at most ${mostDownPercent()} %`;
        const message = `[metrics] tenant cluster ${id}: its private nodes were down for ${share}`;
        if (exceeds) logger.warn(message);
        else logger.info(message);
      }
      if (hours.size === 0 && relabels.size === 0) this.#tenants.delete(id);
    }
    const exceeding = [...this.#tenants.values()].filter(({ exceeds }) => exceeds);
    metrics.privateNodeDowntimeExceeded.set(exceeding.length);
  }
}

function sumOf(hours: Remembered['hours']): { readonly nodeMs: number; readonly downMs: number } {
  let [nodeMs, downMs] = [0, 0];
  for (const hour of hours.values()) {
    nodeMs += hour.nodeMs;
    downMs += hour.downMs;
  }
  return { nodeMs, downMs };
}

/** The share of downtime in percent, rounded to a tenth. */
function percent(hours: Remembered['hours']): number {
  const { nodeMs, downMs } = sumOf(hours);
  return nodeMs <= 0 ? 0 : Math.round((downMs / nodeMs) * 1000) / 10;
}
