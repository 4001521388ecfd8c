import { quote } from '../../model/quote.ts';

/** The result of parsing a text. */
export type Parsed<T> = { readonly kind: 'value'; readonly value: T } | ParseProblem;

export interface ParseProblem {
  readonly kind: 'problem';
  /** The problem in a few words: `not a duration`. */
  readonly what: string;
  /** How to fix it: `write it as in 90s, 1h30m or 7d`. */
  readonly fix: string;
  /** The wrong part of the input; absent when all of it is wrong. */
  readonly input?: string;
  /** The wrong part of a custom resource's field: `[1].tokens.input`. */
  readonly at?: string;
}

/** Parses one kind of value and describes the accepted values. */
export interface Parser<T> {
  /** The accepted values, as the documentation states them. */
  readonly accepts: string;
  /** Parses a trimmed text, which may be empty. */
  parse(text: string): Parsed<T>;
  /** Parses the value of a custom resource field that is not text. */
  field?(value: unknown): Parsed<T>;
}

/** Parses the value of a custom resource field. */
export function parseField<T>(parser: Parser<T>, value: unknown): Parsed<T> {
  if (parser.field !== undefined) return parser.field(value);
  if (typeof value === 'string') return parser.parse(value);
  return invalid('not a text', 'write it as a text', JSON.stringify(value));
}

export function valid<T>(value: T): Parsed<T> {
  return { kind: 'value', value };
}

export function invalid(what: string, fix: string, input?: string): ParseProblem {
  return { kind: 'problem', what, fix, input };
}

/** The value of a text known to be valid, such as a default. Throws TypeError otherwise. */
export function parseOrThrow<T>(parser: Parser<T>, text: string): T {
  const parsed = parser.parse(text);
  if (parsed.kind === 'value') return parsed.value;
  throw new TypeError(`${parsed.what}: "${parsed.input ?? text}"; ${parsed.fix}`);
}

/** `NAME: what is wrong: "value"; how to fix it`. The input must be safe to show. */
export function problemText(name: string, problem: ParseProblem, input: string): string {
  return `${name}: ${problem.what}: ${quote(problem.input ?? input)}; ${problem.fix}`;
}
