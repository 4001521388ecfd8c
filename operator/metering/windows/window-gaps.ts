import type { ObservationReader } from '../timelines/observation.ts';
import type { DueWindow } from './due-windows.ts';
import {
  type Gap,
  omittedSliceGaps,
  unsampledGaps,
  type UsageFailure,
  type UsageFailures,
} from './gaps.ts';
import type { Measured } from './measure-window.ts';
import { noTenancyGaps } from './no-tenancy.ts';
import { excludedNodesGap } from './private-node-limit.ts';

export interface WindowGapsOptions {
  /** Failures of this cluster's metrics API. */
  readonly usageFailures: UsageFailures;
  /** Failure of a tenant cluster's own metrics API. */
  readonly tenantUsageFailure: (id: string) => UsageFailure | undefined;
  /** A discovery pass succeeded since the start of this process. */
  readonly isDiscovered: boolean;
}

/** What measuring a closed window could not determine, as gaps. */
export function windowGaps(
  { window, members }: DueWindow,
  {
    diagnostics,
    privateNodeDiagnostics,
    excludedNodes,
  }: Pick<Measured, 'diagnostics' | 'privateNodeDiagnostics' | 'excludedNodes'>,
  { usageFailures, tenantUsageFailure, isDiscovered }: WindowGapsOptions,
): readonly Gap[] {
  const pods: readonly ObservationReader[] = members
    .filter(({ scope }) => /^pods(\/|$)/.test(scope.name))
    .map(({ scope }) => scope.observation);
  const droppedUntil = Math.max(...pods.map(({ usage }) => usage.droppedUntil));
  return [
    ...[...privateNodeDiagnostics].flatMap(([id, found]) => [
      ...unsampledGaps(window, found, { all: undefined, of: tenantUsageFailure }),
      ...omittedSliceGaps(window, found, id),
    ]),
    ...[...excludedNodes].map(([id, held]) => excludedNodesGap(window, id, held)),
    ...omittedSliceGaps(window, diagnostics),
    ...(pods.length > 0 ? unsampledGaps(window, diagnostics, usageFailures, droppedUntil) : []),
    ...(isDiscovered ? pods : []).flatMap((observation) => noTenancyGaps(window, observation)),
  ];
}
