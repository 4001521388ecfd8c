import type { Parser } from '../parsers/parser.ts';

/**
 * Everything there is to know about one environment variable. The loader, the documentation and the
 * tests all read it from here.
 */
export interface Variable {
  /** One sentence for the documentation. */
  readonly meaning: string;
  readonly parser: Parser<unknown>;
  /** Other names that mean the same; given both with different values is an error. */
  readonly aliases?: readonly string[];
  /** Text that is read as if it had been given. */
  readonly default?: string;
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
   * variable beside it: operator/config/testing/effects.ts.
   */
  readonly test: string;
}

/** What a variable's value is: absent is possible only where there is no default. */
export type ValueOf<V extends Variable> =
  V['parser'] extends Parser<infer T> ? (V extends { default: string } ? T : T | undefined) : never;
