import type { Settings } from '../../settings/settings.ts';
import type { MeterInput, MeterSettings } from '../meters/meter.ts';
import { errorText } from '../../model/error-text.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { Window } from '../../model/window.ts';
import { sampleHoldMs } from '../timelines/usage-samples.ts';
import type { Scope, ScopeState } from './scope.ts';
import { BudgetExceeded } from './work-budget.ts';

/** A scope that has no place in a window, with what happened. */
export interface FailedScope {
  readonly scope: Scope;
  readonly reason: string;
  /** The namespaces whose objects alone are to blame, of a scope that has all of them. */
  readonly namespaces?: readonly string[];
}

/** What all scopes of a window are measured with. */
export type Shared = Pick<MeterInput, 'window' | 'settings'>;

/** Measures a scope, one object after the other. */
export function* runMeters(
  { scope, progress, learntUntil }: ScopeState,
  shared: Shared &
    Pick<MeterInput, 'tally' | 'findings'> &
    Partial<Pick<MeterInput, 'observation' | 'checkpoint'>>,
): Generator<void, void> {
  const { meteredFrom } = progress;
  const { ownNodes, meters, observation } = scope;
  const place = omitUndefined({ ownNodes });
  const input = { observation, meteredFrom, learntUntil, ...place, ...shared };
  for (const meter of meters) {
    yield* meter(input);
    yield;
  }
}

export function attempt<T>(scope: Scope, measure: () => T): T | FailedScope {
  try {
    return measure();
  } catch (error) {
    return failed(scope, error);
  }
}

/** The same of work that is done in steps. */
export function* attemptInTurns<T>(
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
export function meterSettings({ identity, metering }: Settings, window: Window): MeterSettings {
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
