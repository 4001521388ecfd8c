import type { Settings } from '../../settings/settings.ts';
import { type Reversal, settleCredits, type Settlement } from '../meters/reversals.ts';
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

/** What measuring a window came to. */
export interface Measured {
  /** The scopes that are in it whole; what is not here is to be measured another time. */
  readonly members: readonly ScopeState[];
  /** Those whose own objects kept them out of it, with what happened. */
  readonly failed: readonly FailedScope[];
  readonly diagnostics: Diagnostics;
  /** What was found in tenant clusters with nodes of their own, by their ids. */
  readonly privateNodeDiagnostics: ReadonlyMap<string, Diagnostics>;
  /** Own nodes that were left out, by tenant cluster. */
  readonly excludedNodes: ReadonlyMap<string, ExcludedNodes>;
  readonly settlement: Settlement;
}

interface MeasureOptions {
  readonly settings: Settings;
  /** What earlier windows billed too much and could not give back yet. */
  readonly reversals: readonly Reversal[];
  /** Monotonic, milliseconds, without what others did in between. */
  readonly now: () => number;
  /** How often in a row a scope has failed. */
  readonly attempts: (name: string) => number;
  /** Whether what a tenant cluster has did not change while it was measured. */
  readonly isComplete: (member: ScopeState) => boolean;
}

/** A scope that has no place in a window, with what happened. */
export interface FailedScope {
  readonly scope: Scope;
  readonly reason: string;
  /** The namespaces whose objects alone are to blame, of a scope that has all of them. */
  readonly namespaces?: readonly string[];
}

/** What all scopes of a window are measured with. */
type Shared = Pick<MeterInput, 'window' | 'settings'>;

/**
 * Measures a window for the scopes that are closed with it, one object after the other. Changes nothing. What one scope
 * makes throw, or takes too long, costs that scope its place in the window and nothing else
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
  const own = members.filter(({ scope }) => scope.privateNodes === true);
  const ofHost = members.filter(({ scope }) => scope.privateNodes !== true);
  const host = yield* measureHost(ofHost, input);
  const failed = [...host.failed];
  const measured: (readonly [member: ScopeState, own: MeasuredOwn])[] = [];
  for (const member of own) {
    const outcome = yield* attemptInSlices(member.scope, measureOwn(member, input, options));
    if ('reason' in outcome) failed.push(outcome);
    else measured.push([member, outcome]);
  }
  // Nothing waits from here on. What has changed is measured another time.
  const complete = measured.filter(([member]) => isComplete(member));
  const tallies = [...host.tallies, ...complete.map(([, { tally }]) => tally)];
  const charges = tallies.flatMap((tally) => [...tally.charges()]);
  const settlement = settleCredits(charges, reversals, window.end, maxBackfillMs);
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

interface MeasuredHost extends Pick<Measured, 'members' | 'failed' | 'diagnostics'> {
  readonly tallies: readonly Tally[];
}

/** All together, and only when that throws each by itself, to tell the one that does. */
function* measureHost(
  members: readonly ScopeState[],
  shared: Shared,
): Generator<void, MeasuredHost> {
  const tally = createTally();
  const diagnostics = createDiagnostics();
  try {
    for (const member of members) yield* runMeters(member, { ...shared, tally, diagnostics });
    return { members, failed: [], diagnostics, tallies: [tally] };
  } catch (error) {
    const sorted = members.map((member) => {
      const alone = { ...shared, tally: createTally(), diagnostics: createDiagnostics() };
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
      return { members: [], failed: all, diagnostics: createDiagnostics(), tallies: [] };
    }
    const complete = sorted.flatMap((one) => (one.failed === undefined ? [one.member] : []));
    return { ...(yield* measureHost(complete, shared)), failed };
  }
}

/** Namespaces of this cluster without which a scope can be measured; none where that does not help. */
function culpritsOf(member: ScopeState, shared: Shared): readonly string[] {
  const { namespace, observation } = member.scope;
  if (namespace !== undefined) return [];
  const fails = (included: ReadonlySet<string>): boolean => {
    const part = observationOf(observation, (each) => included.has(each));
    const alone = { ...shared, tally: createTally(), diagnostics: createDiagnostics() };
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
  const kinds = METERED_OBJECTS.filter(isNamespaced).map((object) => observation[object]);
  const names = kinds.flatMap((kind) => [...kind.namespaces()].map(([name]) => name));
  return search([...new Set(names)]);
}

/** What a window of one tenant cluster with nodes of its own came to. */
interface MeasuredOwn extends Pick<MeterInput, 'tally' | 'diagnostics'> {
  readonly excludedNodes: ExcludedNodes | undefined;
}

/** Twice as much each time again, so that one that is honest and slow gets through. */
const MOST_DOUBLINGS = 4;
const MS = 200;
/** What the usual object takes on a slow machine, ten times over. */
const MS_PER_OBJECT = 0.3;
const CHARGES = 20_000;
const CHARGES_PER_NODE = 10;

/** Measures a tenant cluster with nodes of its own, one object after the other; throws when it takes more than it may. */
function* measureOwn(
  member: ScopeState,
  shared: Shared,
  { now, attempts }: Pick<MeasureOptions, 'now' | 'attempts'>,
): Generator<void, MeasuredOwn> {
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

/** Measures a scope, one object after the other. */
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

function attempt<T>(scope: Scope, measure: () => T): T | FailedScope {
  try {
    return measure();
  } catch (error) {
    return failed(scope, error);
  }
}

/** The same of work that is done in steps. */
function* attemptInSlices<T>(
  scope: Scope,
  steps: Generator<void, T>,
): Generator<void, T | FailedScope> {
  try {
    return yield* steps;
  } catch (error) {
    return failed(scope, error);
  }
}

/** What measuring a scope threw. */
function failed(scope: Scope, error: unknown): FailedScope {
  const reason =
    error instanceof BudgetExceeded
      ? error.message
      : `measuring a window failed: ${errorText(error)}`;
  return { scope, reason };
}

/** What the meters need of the settings in force, for a window of this size. */
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
