import type { ParseProblem } from './parsers/parser.ts';

/** What a spec came to. An invalid one changes nothing in force. */
export type Translation<T> = { readonly kind: 'settings'; readonly settings: T } | InvalidSpec;

/** Why a spec cannot be used; shown in the condition `Stalled`. */
export interface InvalidSpec {
  readonly kind: 'invalid';
  /** CamelCase, for machines. */
  readonly reason: string;
  /** `what: where: "input"; how to mend it`; never a secret. */
  readonly message: string;
}

export function invalidSpec(reason: string, message: string): InvalidSpec {
  return { kind: 'invalid', reason, message };
}

/** A field whose text a parser refuses. The API server refuses it too, unless its schema is an older one. */
export function invalidField(field: string, problem: ParseProblem, input: string): InvalidSpec {
  const quoted = problem.input ?? input;
  return invalidSpec('InvalidSpec', `${field}: ${problem.what}: "${quoted}"; ${problem.mend}`);
}
