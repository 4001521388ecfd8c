import type { DestinationType } from '../model/destination-type.ts';
import type { Parser } from './parsers/parser.ts';
import type { SettingTable, ValueOf } from './table/setting.ts';

/**
 * The part of a destination type that the configuration needs. The types are in
 * `operator/destinations/`, a higher layer, which passes them in.
 */
export interface ConfigurableDestination<Options = unknown> {
  readonly type: DestinationType;
  /** In ADAPTERS and in paths: the neutral spelling first, then the billing system's own name. */
  readonly spellings: readonly [string, ...string[]];
  /**
   * Prefixes of environment variables that only this type uses. An unknown variable with one of
   * them is a mistake.
   */
  readonly prefixes: readonly string[];
  /** Its own environment variables. */
  readonly variables: VariableSet;
  /** The operator's defaults for fields of the same name in the BillingDestination block. */
  readonly inherits: readonly ('planCode' | 'currency')[];
  /** The variable that selects this type when ADAPTERS and ADAPTER are both unset. */
  readonly defaultWithVariable?: string;
  readonly alerts?: {
    /** The variable whose credentials verify its alerts. */
    readonly secretVariable: string;
  };
  /** The metadata key that pins a tenant's customer id at this billing system. */
  readonly customerId?: CustomerIdKey;
  /**
   * Reads its options from the environment. A method, so that types with different options fit into
   * one list.
   */
  fromEnvironment(given: GivenEnvironment): FromEnvironment<Options>;
}

/** Environment variables by their names. */
export type VariableSet = SettingTable;

/** A metadata key below the label prefix, and what is accepted as its value. */
export interface CustomerIdKey {
  readonly key: `${string}-customer-id`;
  readonly parser: Parser<string>;
  /** The key that pins a subscription of that customer. */
  readonly subscription?: {
    readonly key: `${string}-subscription-id`;
    readonly parser: Parser<string>;
  };
}

/** The operator's settings that a destination uses when it has none of its own. */
export interface DestinationDefaults {
  readonly planCode: string;
  readonly currency: string;
  /** CLUSTER_NAME, the source of CloudEvents. */
  readonly clusterName: string;
}

/** The environment as passed to a destination type. */
export interface GivenEnvironment {
  /** The spelling in ADAPTERS that selected it. */
  readonly spelling: string;
  readonly defaults: DestinationDefaults;
  /** The parsed values of variables, defaults filled in. */
  readonly valuesOf: <S extends VariableSet>(variables: S) => ValuesOf<S>;
}

export type ValuesOf<S extends VariableSet> = {
  readonly [Name in keyof S]: ValueOf<S[Name]>;
};

export type FromEnvironment<Options> =
  | { readonly kind: 'options'; readonly options: Options }
  /** A required variable is not set. */
  | { readonly kind: 'missing'; readonly variable: string };
