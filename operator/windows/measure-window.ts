import { type Assembled, assembleEvents } from '../metering/assemble.ts';
import { type Credit, settleCredits, type Settlement } from '../metering/credits.ts';
import { createFindings, type Findings } from '../metering/findings.ts';
import type { MeterSettings } from '../metering/meter.ts';
import { createTally } from '../metering/tally.ts';
import type { DueWindow } from './due-windows.ts';

/** What measuring a window came to. */
export interface Measured extends Assembled {
  readonly findings: Findings;
  /** What was found in tenant clusters with nodes of their own, by their ids. */
  readonly ownFindings: ReadonlyMap<string, Findings>;
  readonly settlement: Settlement;
  readonly backfilled: boolean;
}

export interface MeasureOptions {
  readonly settings: MeterSettings;
  /** What earlier windows billed too much and could not give back yet. */
  readonly credits: readonly Credit[];
  readonly maxBackfillMs: number;
  /** RFC 3339. */
  readonly recordedAt: string;
  readonly backfilled: boolean;
}

/** Measures a window for all scopes that are closed with it, and makes its events. Changes nothing. */
export function measureWindow({ window, members }: DueWindow, options: MeasureOptions): Measured {
  const { settings, credits, maxBackfillMs, ...event } = options;
  const tally = createTally();
  const findings = createFindings();
  const ownFindings = new Map<string, Findings>();
  for (const { scope, progress, learntUntil } of members) {
    const { meteredFrom } = progress;
    const seen = { observation: scope.observation, meteredFrom, learntUntil };
    const { ownNodes, meters } = scope;
    // Nodes of different clusters may have one name.
    const found = ownNodes === true ? createFindings() : findings;
    if (ownNodes === true) ownFindings.set(scope.gapsOf.scope, found);
    const place = ownNodes === true ? { ownNodes } : {};
    const input = { window, ...seen, ...place, settings, tally, findings: found };
    for (const meter of meters) meter(input);
  }
  const settlement = settleCredits(tally.charges(), credits, window.end, maxBackfillMs);
  const assembled = assembleEvents(settlement.settled, { window, ...event });
  return { findings, ownFindings, settlement, backfilled: options.backfilled, ...assembled };
}
