import type { Settings } from '../config/settings.ts';
import { meterCpuAndMemory } from '../metering/cpu-memory.ts';
import { type Credit, settleCredits, type Settlement } from '../metering/credits.ts';
import { createFindings, type Findings } from '../metering/findings.ts';
import type { MeasuredAhead } from '../metering/meter.ts';
import type { AheadInput } from '../metering/pods-ahead.ts';
import { createTally, type Tally } from '../metering/tally.ts';
import { atOnce } from '../model/at-once.ts';
import { errorText } from '../model/error-text.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { DueWindow } from './due-windows.ts';
import { measureOwn } from './measure-own.ts';
import {
  attempt,
  type FailedScope,
  meterSettings,
  runMeters,
  type Shared,
} from './measure-scope.ts';
import type { OwnAhead } from './own-ahead.ts';
import type { HeldNodes } from './own-node-limit.ts';
import type { ScopeState } from './scope.ts';
import { namespacesOf, observationOf } from '../observation/seen-timelines.ts';

/** What measuring a window came to. */
export interface Measured {
  /** The scopes that are in it whole; what is not here is to be measured another time. */
  readonly members: readonly ScopeState[];
  /** Those whose own objects kept them out of it, with what happened. */
  readonly failed: readonly FailedScope[];
  readonly findings: Findings;
  /** What was found in tenant clusters with nodes of their own, by their ids. */
  readonly ownFindings: ReadonlyMap<string, Findings>;
  /** Own nodes that were left out, by tenant cluster. */
  readonly heldNodes: ReadonlyMap<string, HeldNodes>;
  readonly settlement: Settlement;
}

export interface MeasureOptions {
  readonly settings: Settings;
  /** What earlier windows billed too much and could not give back yet. */
  readonly credits: readonly Credit[];
  /** Monotonic, milliseconds. */
  readonly now: () => number;
  /** How often in a row a scope has failed. */
  readonly attempts: (name: string) => number;
  /** What was measured of pods before. */
  readonly ahead?: MeasuredAhead | undefined;
  /** The tenant clusters with own nodes that were measured before. */
  readonly ownAhead?: Pick<OwnAhead, 'take'> | undefined;
}

/** What the pods of this cluster are measured out of before their window is closed; undefined where none are closed with it. */
export function aheadInput(
  { window, members }: DueWindow,
  settings: Settings,
): AheadInput | undefined {
  const pods = members.find(
    ({ scope: { meters, namespace, ownNodes } }) =>
      ownNodes !== true && namespace === undefined && meters.includes(meterCpuAndMemory),
  );
  if (pods === undefined) return undefined;
  const { scope, progress, learntUntil } = pods;
  return {
    window,
    observation: scope.observation,
    meteredFrom: progress.meteredFrom,
    learntUntil,
    settings: meterSettings(settings, window),
  };
}

/** Tenant clusters' own APIs that are not begun by then wait for the next turn. */
const OWN_MS = 60;

/**
 * Measures a window for the scopes that are closed with it. Changes nothing. What one scope makes throw,
 * or takes too long, costs that scope its place in the window and nothing else
 * (docs/architecture.md#what-may-fail-and-what-then).
 */
export function measureWindow({ window, members }: DueWindow, options: MeasureOptions): Measured {
  const { credits, now, attempts, ahead, ownAhead } = options;
  const settings = meterSettings(options.settings, window);
  const { maxBackfillMs } = options.settings.metering;
  const input = { window, settings };
  const own = members.filter(({ scope }) => scope.ownNodes === true);
  const ofHost = members.filter(({ scope }) => scope.ownNodes !== true);
  const host = measureHost(ofHost, input, ahead);
  const charges = [...host.tallies];
  const whole = [...host.members];
  const failed = [...host.failed];
  const ownFindings = new Map<string, Findings>();
  const heldNodes = new Map<string, HeldNodes>();
  const begun = now();
  for (const member of own) {
    const { scope } = member;
    const known = ownAhead?.take(member, input);
    if (known === undefined && now() - begun > OWN_MS) break;
    const tries = attempts(scope.name);
    const measured =
      known ?? attempt(scope, () => atOnce(measureOwn(member, input, { now, tries })));
    if ('reason' in measured) {
      failed.push(measured);
      continue;
    }
    charges.push(measured.tally);
    ownFindings.set(scope.gapsOf.scope, measured.findings);
    if (measured.heldNodes !== undefined) heldNodes.set(scope.gapsOf.scope, measured.heldNodes);
    whole.push(member);
  }
  const all = charges.flatMap((tally) => [...tally.charges()]);
  const settlement = settleCredits(all, credits, window.end, maxBackfillMs);
  return { members: whole, failed, findings: host.findings, ownFindings, heldNodes, settlement };
}

interface MeasuredHost extends Pick<Measured, 'members' | 'failed' | 'findings'> {
  readonly tallies: readonly Tally[];
}

/** All together, and only when that throws each by itself, to tell the one that does. */
function measureHost(
  members: readonly ScopeState[],
  shared: Shared,
  ahead?: MeasuredAhead,
): MeasuredHost {
  const tally = createTally();
  const findings = createFindings();
  const known = omitUndefined({ ahead });
  try {
    for (const member of members) {
      atOnce(runMeters(member, { ...shared, ...known, tally, findings }));
    }
    return { members, failed: [], findings, tallies: [tally] };
  } catch (error) {
    const sorted = members.map((member) => {
      const alone = { ...shared, tally: createTally(), findings: createFindings() };
      const measured = attempt(member.scope, () => atOnce(runMeters(member, alone)));
      return { member, failed: measured };
    });
    const failed = sorted.flatMap(({ member, failed: one }) =>
      one === undefined ? [] : { ...one, namespaces: culpritsOf(member, shared) },
    );
    if (failed.length === 0) {
      // Each can be measured, and all together cannot: none may be billed by half.
      const reason = `measuring a window failed: ${errorText(error)}`;
      const all = members.map(({ scope }) => ({ scope, reason }));
      return { members: [], failed: all, findings: createFindings(), tallies: [] };
    }
    const whole = sorted.flatMap((one) => (one.failed === undefined ? [one.member] : []));
    return { ...measureHost(whole, shared), failed };
  }
}

/** Namespaces of this cluster without which a scope can be measured; none where that does not help. */
function culpritsOf(member: ScopeState, shared: Shared): readonly string[] {
  const { namespace, observation } = member.scope;
  if (namespace !== undefined) return [];
  const fails = (included: ReadonlySet<string>): boolean => {
    const part = observationOf(observation, (each) => included.has(each));
    const alone = { ...shared, tally: createTally(), findings: createFindings() };
    const measured = attempt(member.scope, () =>
      atOnce(runMeters(member, { ...alone, observation: part })),
    );
    return measured !== undefined;
  };
  if (fails(new Set())) return [];
  const search = (names: readonly string[]): readonly string[] => {
    if (!fails(new Set(names))) return [];
    if (names.length === 1) return names;
    const middle = Math.ceil(names.length / 2);
    return [...search(names.slice(0, middle)), ...search(names.slice(middle))];
  };
  return search(namespacesOf(observation));
}
