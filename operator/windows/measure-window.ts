import type { Settings } from '../config/settings.ts';
import { type Assembled, assembleEvents } from '../metering/assemble.ts';
import { type Credit, settleCredits, type Settlement } from '../metering/credits.ts';
import { createFindings, type Findings } from '../metering/findings.ts';
import type { MeterSettings } from '../metering/meter.ts';
import { createTally } from '../metering/tally.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { Window } from '../model/window.ts';
import { sampleHoldMs } from '../observation/usage-samples.ts';
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
  readonly settings: Settings;
  /** What earlier windows billed too much and could not give back yet. */
  readonly credits: readonly Credit[];
  /** RFC 3339. */
  readonly recordedAt: string;
  readonly backfilled: boolean;
}

/** Measures a window for all scopes that are closed with it, and makes its events. Changes nothing. */
export function measureWindow({ window, members }: DueWindow, options: MeasureOptions): Measured {
  const { credits, recordedAt, backfilled } = options;
  const settings = meterSettings(options.settings, window);
  const { maxBackfillMs } = options.settings.metering;
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
    const place = omitUndefined({ ownNodes });
    const input = { window, ...seen, ...place, settings, tally, findings: found };
    for (const meter of meters) meter(input);
  }
  const settlement = settleCredits(tally.charges(), credits, window.end, maxBackfillMs);
  const assembled = assembleEvents(settlement.settled, { window, recordedAt, backfilled });
  return { findings, ownFindings, settlement, backfilled, ...assembled };
}

/** What the meters need of the settings in force, for a window of this size. */
function meterSettings({ identity, metering }: Settings, window: Window): MeterSettings {
  const { region, regionFromNode, zone, defaultTenantClass } = identity;
  const { dedicatedNodeLabel } = metering;
  return {
    region,
    regionFromNode,
    sampleHoldMs: sampleHoldMs(window.end - window.start),
    draGpuDrivers: metering.draGpuDrivers,
    gpuResources: metering.gpuResources,
    ...omitUndefined({ zone, defaultTenantClass, dedicatedNodeLabel }),
  };
}
