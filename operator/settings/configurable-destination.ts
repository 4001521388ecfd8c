import type { DestinationType } from '../model/destination-type.ts';
import type { Parser } from './parsers/parser.ts';
import type { SettingTable, ValueOf } from './table/setting.ts';

/**
 * What the configuration knows of a type of destination. The types themselves stand above this folder,
 * in `operator/destinations/`, and are handed in.
 */
export interface ConfigurableDestination<Options = unknown> {
  readonly type: DestinationType;
  /** In ADAPTERS and in paths: the neutral spelling first, then the billing system's own name. */
  readonly spellings: readonly [string, ...string[]];
  /** Prefixes of environment variables that nobody else uses: an unknown one that has it is a mistake. */
  readonly prefixes: readonly string[];
  /** Its own environment variables. */
  readonly variables: VariableSet;
  /** Which of the operator's defaults fields of the same name in its block of a BillingDestination beat. */
  readonly inherits: readonly ('planCode' | 'currency')[];
  /** The variable that makes it the destination where neither ADAPTERS nor ADAPTER names any. */
  readonly defaultWithVariable?: string;
  readonly alerts?: {
    /** The variable whose credentials verify its alerts. */
    readonly secretVariable: string;
  };
  /** Where the metadata of tenants pin their customer id at this billing system. */
  readonly customerId?: CustomerIdKey;
  /** Its options as the environment gives them. A method, so that types with different options fit into one list. */
  fromEnvironment(given: GivenEnvironment): FromEnvironment<Options>;
}

/** Environment variables by their names. */
export type VariableSet = SettingTable;

/** A metadata key below the label prefix, and what is accepted as its value. */
export interface CustomerIdKey {
  readonly key: `${string}-customer-id`;
  readonly parser: Parser<string>;
  /** Where a subscription of that customer may be pinned too. */
  readonly subscription?: {
    readonly key: `${string}-subscription-id`;
    readonly parser: Parser<string>;
  };
}

/** What a destination takes from the operator's settings where nothing of its own is said. */
export interface DestinationDefaults {
  readonly planCode: string;
  readonly currency: string;
  /** CLUSTER_NAME, the source of CloudEvents. */
  readonly clusterName: string;
}

/** The environment, as a type of destination reads it. */
export interface GivenEnvironment {
  /** The spelling in ADAPTERS that asked for it. */
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
  /** A variable that it cannot do without is not given. */
  | { readonly kind: 'missing'; readonly variable: string };
