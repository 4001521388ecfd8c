/** Names and indexes that lead from the data of an event to one value. */
export type ValuePath = readonly (string | number)[];

/** The kinds of tokens, disjoint: the kinds of one request add up to its tokens. */
export const TOKEN_KINDS = ['input', 'cache_read', 'cache_write', 'output', 'reasoning'] as const;

export type TokenKind = (typeof TOKEN_KINDS)[number];

/** How usage is read from events of one type (docs/how-to/ai-gateways.md#a-rule-of-your-own). */
export interface CloudEventRule {
  readonly type: string;
  /** Where the data names the caller. Absent: the attribute `subject` does. */
  readonly subject?: ValuePath;
  /** Cut from the caller's name if it begins with it. */
  readonly subjectPrefix?: string;
  /** Callers whose events are ignored: health checks of a gateway. */
  readonly ignoredSubjects?: readonly string[];
  readonly tokens?: TokenRule;
  readonly metrics?: readonly QuantityRule[];
}

/** Where an event has the tokens of a request: by kind, or one count with its kind. */
export interface TokenRule {
  readonly input?: ValuePath;
  readonly output?: ValuePath;
  readonly cacheRead?: ValuePath;
  readonly cacheWrite?: ValuePath;
  readonly reasoning?: ValuePath;
  /** Whether the count at `input` includes those at `cacheRead` and `cacheWrite`. */
  readonly inputIncludesCached?: boolean;
  /** Whether the count at `output` includes the one at `reasoning`. */
  readonly outputIncludesReasoning?: boolean;
  /** A count of the kind that `kind` names. */
  readonly count?: ValuePath;
  readonly kind?: ValuePath;
  readonly dimensions: Readonly<Record<string, ValuePath>>;
}

/** A quantity of one metric. */
export interface QuantityRule {
  readonly metric: string;
  /** Absent: each event counts as 1. */
  readonly value?: ValuePath;
  /** The unit of the value, checked against the metric's. */
  readonly unit?: string;
  readonly dimensions: Readonly<Record<string, ValuePath>>;
}

/** The tenant of callers. `*` in `subject` stands for any characters. */
export interface SubjectRule {
  readonly subject: string;
  readonly tenant: string;
}
