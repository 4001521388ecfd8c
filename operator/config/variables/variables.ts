import {
  BILLING_VARIABLES,
  LAGO_VARIABLES,
  METRONOME_VARIABLES,
  STRIPE_VARIABLES,
} from './billing.ts';
import { DISCOVERY_VARIABLES } from './discovery.ts';
import { IDENTITY_VARIABLES } from './identity.ts';
import { METERING_VARIABLES } from './metering.ts';
import { PROMETHEUS_VARIABLES } from './prometheus.ts';
import { SERVICE_VARIABLES } from './service.ts';
import type { ValueOf, Variable } from './variable.ts';

/** Every environment variable of the operator: the spec's appendix and those that design 4 adds. */
export const VARIABLES = {
  ...BILLING_VARIABLES,
  ...LAGO_VARIABLES,
  ...STRIPE_VARIABLES,
  ...METRONOME_VARIABLES,
  ...IDENTITY_VARIABLES,
  ...DISCOVERY_VARIABLES,
  ...METERING_VARIABLES,
  ...PROMETHEUS_VARIABLES,
  ...SERVICE_VARIABLES,
} as const satisfies Record<string, Variable>;

export type VariableName = keyof typeof VARIABLES;

/** The parsed value of every variable, defaults filled in. */
export type Values = {
  readonly [Name in VariableName]: ValueOf<(typeof VARIABLES)[Name]>;
};

/** The schema as plain entries. */
export function variables(): readonly (readonly [name: string, variable: Variable])[] {
  return Object.entries(VARIABLES);
}
