/** What is told of a piece of work beside its name; nothing of tenants, and no secret. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

/** A piece of work that has begun. */
export interface Span {
  /** A part of it. */
  child(name: string, attributes?: SpanAttributes): Span;
  /** It is over; `problem` where it failed, in words that may be shown. */
  end(attributes?: SpanAttributes, problem?: string): void;
}

/** Tells somebody outside how long work takes (docs/how-to/opentelemetry.md#traces). */
export interface Tracer {
  begin(name: string, attributes?: SpanAttributes): Span;
}
