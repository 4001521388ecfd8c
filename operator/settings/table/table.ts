import type { ConfigurableDestination, ValuesOf } from '../configurable-destination.ts';
import { BILLING_VARIABLES, describedBillingVariables } from './billing.ts';
import { DISCOVERY, TENANT_API } from './discovery.ts';
import { IDENTITY } from './identity.ts';
import { METERING } from './metering.ts';
import {
  ANCHORS,
  ENFORCEMENT,
  HTTP,
  INGEST,
  LEDGER,
  LOG,
  PROCESS_VARIABLES,
  PROMETHEUS,
} from './service.ts';
import type { Setting } from './setting.ts';

/** The settings that `Settings` contains as they are set, by part and key. */
export const TABLE = {
  identity: IDENTITY,
  discovery: DISCOVERY,
  tenantApi: TENANT_API,
  metering: METERING,
  prometheus: PROMETHEUS,
  ledger: LEDGER,
  anchors: ANCHORS,
  ingest: INGEST,
  http: HTTP,
  enforcement: ENFORCEMENT,
  log: LOG,
} as const;

/** The other variables of `Settings`, except those of destination types. */
export const VARIABLES = { ...BILLING_VARIABLES, ...PROCESS_VARIABLES } as const;

/** The parsed values of {@link VARIABLES}, with defaults. */
export type Values = ValuesOf<typeof VARIABLES>;

/** A setting with its name: the environment variable, or else the field of the MeteringPolicy. */
export type NamedSetting = readonly [name: string, setting: Setting];

/** Every setting of the operator, in the order of the documentation. */
export function settings(
  destinations: readonly ConfigurableDestination[],
): readonly NamedSetting[] {
  return [
    ...Object.entries(describedBillingVariables(destinations)),
    ...destinations.flatMap((destination) => Object.entries(destination.variables)),
    ...Object.entries<Setting>(PROCESS_VARIABLES),
    ...Object.values<Readonly<Record<string, Setting>>>(TABLE)
      .flatMap((part) => Object.values(part))
      .map((setting) => [setting.variable ?? policyField(setting) ?? '', setting] as const),
  ];
}

/** Every environment variable of the operator, in the order of the documentation. */
export function variables(
  destinations: readonly ConfigurableDestination[],
): readonly NamedSetting[] {
  return settings(destinations).filter(([name]) => !name.startsWith('spec.'));
}

/** The MeteringPolicy field of a setting, such as `spec.zone`. */
export function policyField({ fields = [] }: Setting): string | undefined {
  return fields.find((field) => field.startsWith(POLICY))?.slice(POLICY.length);
}

const POLICY = 'MeteringPolicy ';
