/** Attributes of a span. They contain nothing of tenants, and no secret. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

/** Work in progress. */
export interface TraceSpan {
  /** Begins a span inside this one. */
  child(name: string, attributes?: SpanAttributes): TraceSpan;
  /** Ends the span. `problem` is a text for people if the work failed. */
  end(attributes?: SpanAttributes, problem?: string): void;
}

/** Exports how long work takes (docs/how-to/opentelemetry.md#traces). */
export interface Tracer {
  begin(name: string, attributes?: SpanAttributes): TraceSpan;
}
