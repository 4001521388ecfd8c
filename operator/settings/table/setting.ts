import { type Parser, parseOrThrow } from '../parsers/parser.ts';

/**
 * One setting. The environment loader, custom resources, the types of `Settings`, the documentation
 * and the tests all read it.
 */
export interface Setting {
  /** One sentence for the documentation. */
  readonly meaning: string;
  readonly parser: Parser<unknown>;
  /**
   * The environment variable. Absent if the key of the table is its name, or if only custom
   * resources set it.
   */
  readonly variable?: string;
  /** Other names of the variable. Different values under two names are an error. */
  readonly aliases?: readonly string[];
  /** The text used when nothing is set. */
  readonly default?: string;
  /** The value when nothing is set, if no text can express it. */
  readonly absent?: unknown;
  /** Documents what applies when nothing is set, if that is not a fixed text. */
  readonly otherwise?: string;
  /**
   * Custom resource fields that override it, such as `MeteringPolicy spec.zone`. Absent:
   * environment only.
   */
  readonly fields?: readonly string[];
  /** How it is shown: `masked` hides it, `url` hides credentials and query. Absent: in full. */
  readonly shown?: 'masked' | 'url';
  /** Logged as a warning when it is set. */
  readonly deprecated?: string;
  /**
   * The test file that proves its effect. operator/settings/testing/effects.ts proves for every
   * setting that the value reaches `Settings`.
   */
  readonly test: string;
}

/** Settings by their keys in a part of `Settings`, or variables by name. */
export type SettingTable = Readonly<Record<string, Setting>>;

type ParsedSetting<S extends Setting> = S['parser'] extends Parser<infer T> ? T : never;

/** The type of a setting's value. It can be undefined only without a default. */
export type ValueOf<S extends Setting> = S extends { default: string } | { absent: unknown }
  ? ParsedSetting<S>
  : ParsedSetting<S> | undefined;

type Fixed<T extends SettingTable> = {
  [K in keyof T]: T[K] extends { default: string } | { absent: unknown } ? K : never;
}[keyof T];

/** The part of `Settings` that a table describes: a field per key, optional if no default. */
export type SettingsOf<T extends SettingTable> = {
  readonly [K in Fixed<T>]: ParsedSetting<T[K]>;
} & { readonly [K in Exclude<keyof T, Fixed<T>>]?: ParsedSetting<T[K]> };

/** The value of a setting that is not set; undefined if it has no default. */
export function defaultOf({ parser, default: text, absent }: Setting): unknown {
  return text === undefined ? absent : parseOrThrow(parser, text);
}
