import { type Parser, parseOrThrow } from '../parsers/parser.ts';

/**
 * Everything there is to know about one setting. The loader of the environment, the overlay of custom
 * resources, the types of the settings, the documentation and the tests all read it from here.
 */
export interface Setting {
  /** One sentence for the documentation. */
  readonly meaning: string;
  readonly parser: Parser<unknown>;
  /** The environment variable. Absent where the key of the table is its name, and where only custom resources give it. */
  readonly variable?: string;
  /** Other names that mean the same; given both with different values is an error. */
  readonly aliases?: readonly string[];
  /** Text that is read as if it had been given. */
  readonly default?: string;
  /** The value that holds where nothing is given, where no text means it. */
  readonly absent?: unknown;
  /** What holds when it is absent, where that is no fixed text. */
  readonly otherwise?: string;
  /** Fields of custom resources that win over it, such as `MeteringPolicy spec.zone`; none means environment only. */
  readonly fields?: readonly string[];
  /** How it may be shown: `masked` hides it all, `url` hides credentials and query. Plain when absent. */
  readonly shown?: 'masked' | 'url';
  /** Warned of when it is given. */
  readonly deprecated?: string;
  /**
   * The test file that proves its effect. That its value reaches the settings is proven for every
   * setting beside it: operator/settings/testing/effects.ts.
   */
  readonly test: string;
}

/** Settings by their keys in a part of `Settings`, or variables by their names. */
export type SettingTable = Readonly<Record<string, Setting>>;

type Parsed<S extends Setting> = S['parser'] extends Parser<infer T> ? T : never;

/** What a setting's value is: absent is possible only where there is no default. */
export type ValueOf<S extends Setting> = S extends { default: string } | { absent: unknown }
  ? Parsed<S>
  : Parsed<S> | undefined;

type Fixed<T extends SettingTable> = {
  [K in keyof T]: T[K] extends { default: string } | { absent: unknown } ? K : never;
}[keyof T];

/** The part of the settings that a table describes: a value for each key, optional where there is no default. */
export type SettingsOf<T extends SettingTable> = {
  readonly [K in Fixed<T>]: Parsed<T[K]>;
} & { readonly [K in Exclude<keyof T, Fixed<T>>]?: Parsed<T[K]> };

/** The value of a setting that nobody gives; undefined where it has none then. */
export function defaultOf({ parser, default: text, absent }: Setting): unknown {
  return text === undefined ? absent : parseOrThrow(parser, text);
}
