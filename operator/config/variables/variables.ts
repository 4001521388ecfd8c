import type { ConfigurableDestination, ValuesOf } from '../configurable-destination.ts';
import { BILLING_VARIABLES, describedBillingVariables } from './billing.ts';
import { DISCOVERY_VARIABLES } from './discovery.ts';
import { IDENTITY_VARIABLES } from './identity.ts';
import { METERING_VARIABLES } from './metering.ts';
import { PROMETHEUS_VARIABLES } from './prometheus.ts';
import { SERVICE_VARIABLES } from './service.ts';
import type { Variable } from './variable.ts';

/** Every environment variable but those of the types of destinations. */
export const VARIABLES = {
  ...BILLING_VARIABLES,
  ...IDENTITY_VARIABLES,
  ...DISCOVERY_VARIABLES,
  ...METERING_VARIABLES,
  ...PROMETHEUS_VARIABLES,
  ...SERVICE_VARIABLES,
} as const satisfies Record<string, Variable>;

/** The parsed value of every one of them, defaults filled in. */
export type Values = ValuesOf<typeof VARIABLES>;

/** Every environment variable of the operator, in the order of the documentation. */
export function variables(
  destinations: readonly ConfigurableDestination[],
): readonly (readonly [name: string, variable: Variable])[] {
  const billing = describedBillingVariables(destinations);
  return [
    ...Object.entries(billing),
    ...destinations.flatMap((destination) => Object.entries(destination.variables)),
    ...Object.entries<Variable>(VARIABLES).filter(([name]) => !(name in billing)),
  ];
}
