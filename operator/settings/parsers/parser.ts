import { quote } from '../../model/quote.ts';

/** What a parser made of a text. `input` is the part that is wrong, where that is not all of it. */
export type Parsed<T> = { readonly kind: 'value'; readonly value: T } | ParseProblem;

export interface ParseProblem {
  readonly kind: 'problem';
  /** What is wrong, in a few words: `not a duration`. */
  readonly what: string;
  /** How to mend it: `write it as in 90s, 1h30m or 7d`. */
  readonly fix: string;
  readonly input?: string;
}

/** Reads one kind of value from text, and says in words what it accepts. */
export interface Parser<T> {
  /** The accepted values, as the documentation states them. */
  readonly accepts: string;
  /** The text is trimmed; it may be empty. */
  parse(text: string): Parsed<T>;
  /** Reads the value of a field of a custom resource where that is no text. */
  field?(value: unknown): Parsed<T>;
}

/** Reads the value of a field of a custom resource. */
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

/** The value of a text that is known to be right, such as a default. Throws a TypeError when it is not. */
export function parseOrThrow<T>(parser: Parser<T>, text: string): T {
  const parsed = parser.parse(text);
  if (parsed.kind === 'value') return parsed.value;
  throw new TypeError(`${parsed.what}: "${parsed.input ?? text}"; ${parsed.fix}`);
}

/** `NAME: what is wrong: "value"; how to mend it`. The input must already be fit to be shown. */
export function problemText(name: string, problem: ParseProblem, input: string): string {
  return `${name}: ${problem.what}: ${quote(problem.input ?? input)}; ${problem.fix}`;
}
