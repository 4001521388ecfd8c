import type { Settings } from '../../settings/settings.ts';
import { type Reversal, settleReversals, type SettledCharges } from '../meters/reversals.ts';
import { createDiagnostics, type Diagnostics } from '../meters/meter-reports.ts';
import type { MeterInput, MeterSettings } from '../meters/meter.ts';
import { isNamespaced, METERED_OBJECTS } from '../meters/meters.ts';
import { createTally, type Tally } from '../meters/tally.ts';
import { atOnce } from '../../model/at-once.ts';
import { errorText } from '../../model/error-text.ts';
import type { Window } from '../../model/window.ts';
import { observationOf } from '../timelines/seen-timelines.ts';
import { sampleValidMs } from '../timelines/usage-samples.ts';
import type { DueWindow } from './due-windows.ts';
import { objectsOf } from './one-slice.ts';
import { type ExcludedNodes, limitPrivateNodes } from './private-node-limit.ts';
import type { Scope, ScopeState } from './scope.ts';
import { BudgetExceeded, withinBudget } from './work-budget.ts';

/** The result of measuring a window. */
export interface Measured {
  /** The scopes that were measured completely. The others are measured another time. */
  readonly members: readonly ScopeState[];
  /** Scopes that their own objects kept out of the window, with the reason. */
  readonly failed: readonly FailedScope[];
  readonly diagnostics: Diagnostics;
  /** Diagnostics of tenant clusters with private nodes, by tenant cluster id. */
  readonly privateNodeDiagnostics: ReadonlyMap<string, Diagnostics>;
  /** Private nodes that were left out, by tenant cluster id. */
  readonly excludedNodes: ReadonlyMap<string, ExcludedNodes>;
  readonly settlement: SettledCharges;
}

interface MeasureOptions {
  readonly settings: Settings;
  /** Time that earlier windows billed too much and that is not given back yet. */
  readonly reversals: readonly Reversal[];
  /** Monotonic milliseconds, without the time of other work in between. */
  readonly now: () => number;
  /** How often in a row a scope has failed. */
  readonly attempts: (name: string) => number;
  /** Whether the objects of a tenant cluster stayed unchanged during measurement. */
  readonly isComplete: (member: ScopeState) => boolean;
}

/** A scope that cannot be part of a window, with the reason. */
export interface FailedScope {
  readonly scope: Scope;
  readonly reason: string;
  /** The namespaces that cause the failure, of a scope that covers all namespaces. */
  readonly namespaces?: readonly string[];
}

/** Input that all scopes of a window share. */
type Shared = Pick<MeterInput, 'window' | 'settings'>;

/**
 * Measures a window for the scopes that close with it, object by object. Changes nothing. A scope
 * that throws or takes too long is left out of the window, and the others are not affected
 * (docs/explanation/architecture.md#what-may-fail-and-what-then).
 */
export function* measureWindow(
  { window, members }: DueWindow,
  options: MeasureOptions,
): Generator<void, Measured> {
  const { reversals, isComplete } = options;
  const settings = meterSettings(options.settings, window);
  const { maxBackfillMs } = options.settings.metering;
  const input = { window, settings };
  const ofPrivateNodes = members.filter(({ scope }) => scope.privateNodes === true);
  const ofHost = members.filter(({ scope }) => scope.privateNodes !== true);
  const host = yield* measureHost(ofHost, input);
  const failed = [...host.failed];
  const measured: (readonly [member: ScopeState, own: MeasuredTenant])[] = [];
  for (const member of ofPrivateNodes) {
    const outcome = yield* attempt(member.scope, measureTenant(member, input, options));
    if ('reason' in outcome) failed.push(outcome);
    else measured.push([member, outcome]);
  }
  // No step yields from here on. Scopes that changed meanwhile are measured another time.
  const complete = measured.filter(([member]) => isComplete(member));
  const tallies = [...host.tallies, ...complete.map(([, { tally }]) => tally)];
  const charges = tallies.flatMap((tally) => [...tally.charges()]);
  const settlement = settleReversals(charges, reversals, window.end, maxBackfillMs);
  const privateNodeDiagnostics = new Map<string, Diagnostics>();
  const excludedNodes = new Map<string, ExcludedNodes>();
  for (const [{ scope }, each] of complete) {
    privateNodeDiagnostics.set(scope.gapsOf.scope, each.diagnostics);
    if (each.excludedNodes !== undefined) excludedNodes.set(scope.gapsOf.scope, each.excludedNodes);
  }
  return {
    members: [...host.members, ...complete.map(([member]) => member)],
    failed,
    diagnostics: host.diagnostics,
    privateNodeDiagnostics,
    excludedNodes,
    settlement,
  };
}

/**
 * Measures the scopes of this cluster together. Only if that throws, measures each one separately
 * to find the failing one.
 */
function* measureHost(
  members: readonly ScopeState[],
  shared: Shared,
): Generator<
  void,
  Pick<Measured, 'members' | 'failed' | 'diagnostics'> & { readonly tallies: readonly Tally[] }
> {
  const tally = createTally();
  const diagnostics = createDiagnostics();
  try {
    for (const member of members) yield* runMeters(member, { ...shared, tally, diagnostics });
    return { members, failed: [], diagnostics, tallies: [tally] };
  } catch (error) {
    const sorted = members.map((member) => {
      const alone = { ...shared, tally: createTally(), diagnostics: createDiagnostics() };
      return { member, failed: atOnce(attempt(member.scope, runMeters(member, alone))) };
    });
    const failed = sorted.flatMap(({ member, failed: one }) =>
      one === undefined ? [] : { ...one, namespaces: culpritsOf(member, shared) },
    );
    if (failed.length === 0) {
      // Each scope can be measured, but not all together: bill none of them by half.
      const reason = `measuring a window failed: ${errorText(error)}`;
      const all = members.map(({ scope }) => ({ scope, reason }));
      return { members: [], failed: all, diagnostics: createDiagnostics(), tallies: [] };
    }
    const complete = sorted.flatMap((one) => (one.failed === undefined ? [one.member] : []));
    return { ...(yield* measureHost(complete, shared)), failed };
  }
}

/** Returns the namespaces whose removal makes a scope measurable; none if that does not help. */
function culpritsOf(member: ScopeState, shared: Shared): readonly string[] {
  const { namespace, observation } = member.scope;
  if (namespace !== undefined) return [];
  const fails = (included: ReadonlySet<string>): boolean => {
    const subset = observationOf(observation, (each) => included.has(each));
    const alone = { ...shared, tally: createTally(), diagnostics: createDiagnostics() };
    const steps = runMeters(member, { ...alone, observation: subset });
    return atOnce(attempt(member.scope, steps)) !== undefined;
  };
  if (fails(new Set())) return [];
  const search = (names: readonly string[]): readonly string[] => {
    if (!fails(new Set(names))) return [];
    if (names.length === 1) return names;
    const middle = Math.ceil(names.length / 2);
    return [...search(names.slice(0, middle)), ...search(names.slice(middle))];
  };
  const kinds = METERED_OBJECTS.filter(isNamespaced).map((object) => observation[object]);
  const names = kinds.flatMap((kind) => [...kind.namespaces()].map(([name]) => name));
  return search([...new Set(names)]);
}

/** The result for one tenant cluster with private nodes. */
interface MeasuredTenant extends Pick<MeterInput, 'tally' | 'diagnostics'> {
  readonly excludedNodes: ExcludedNodes | undefined;
}

/** The budget doubles with each attempt, so that an honest slow tenant cluster succeeds. */
const MOST_DOUBLINGS = 4;
const MS = 200;
/** Ten times what a usual object takes on a slow machine. */
const MS_PER_OBJECT = 0.3;
const CHARGES = 20_000;
const CHARGES_PER_NODE = 10;

/** Measures a tenant cluster with private nodes by object. Throws when it exceeds its budget. */
function* measureTenant(
  member: ScopeState,
  shared: Shared,
  { now, attempts }: Pick<MeasureOptions, 'now' | 'attempts'>,
): Generator<void, MeasuredTenant> {
  const tally = createTally();
  const diagnostics = createDiagnostics();
  const { observation, excludedNodes } = limitPrivateNodes(member.scope.observation, shared.window);
  const tries = attempts(member.scope.name);
  const ms = Math.round(
    (MS + objectsOf(observation) * MS_PER_OBJECT) * 2 ** Math.min(tries, MOST_DOUBLINGS),
  );
  const billed = excludedNodes?.limit ?? observation.nodes.size;
  const charges = CHARGES + billed * CHARGES_PER_NODE;
  const budgeted = withinBudget({ observation, tally }, { ms, charges }, now);
  yield* runMeters(member, { ...shared, diagnostics, ...budgeted });
  return { tally, diagnostics, excludedNodes };
}

/** Measures a scope, object by object. */
function* runMeters(
  { scope, progress, learntUntil }: ScopeState,
  shared: Shared &
    Pick<MeterInput, 'tally' | 'diagnostics'> &
    Partial<Pick<MeterInput, 'observation' | 'checkpoint'>>,
): Generator<void, void> {
  const { meteredFrom } = progress;
  const { privateNodes, meters, observation } = scope;
  const input = { observation, meteredFrom, learntUntil, privateNodes, ...shared };
  for (const meter of meters) {
    yield* meter(input);
    yield;
  }
}

/** The result of measuring a scope, or why it threw. */
function* attempt<T>(scope: Scope, steps: Generator<void, T>): Generator<void, T | FailedScope> {
  try {
    return yield* steps;
  } catch (error) {
    const reason =
      error instanceof BudgetExceeded
        ? error.message
        : `measuring a window failed: ${errorText(error)}`;
    return { scope, reason };
  }
}

/** The settings that meters need for a window of this size. */
function meterSettings({ identity, metering }: Settings, window: Window): MeterSettings {
  const { region, regionFromNode, zone, defaultTenantClass } = identity;
  const { dedicatedNodeLabel } = metering;
  return {
    region,
    regionFromNode,
    sampleValidMs: sampleValidMs(window.end - window.start),
    draGpuDrivers: metering.draGpuDrivers,
    gpuResources: metering.gpuResources,
    zone,
    defaultTenantClass,
    dedicatedNodeLabel,
  };
}
