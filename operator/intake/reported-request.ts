/** The usage of one request, as a sender's event reports it and a mapping reads it. */
export interface ReportedRequest {
  /** Identity of the event: base64url of the first 16 bytes of SHA-256 over `source` NUL `id`. */
  readonly key: string;
  /** The identity as the sender names it. */
  readonly source: string;
  readonly id: string;
  /** The caller as the sender names it, before `spec.ingest.subjects` maps it. */
  readonly subject: string;
  /** The tenant of the subject. Nobody may know it: then its sums are held. */
  readonly tenant: string;
  /** When it was used, milliseconds since the epoch. */
  readonly at: number;
  readonly quantities: readonly ReportedQuantity[];
}

/** A part of a request's usage. Parts of one request are disjoint: they may be added up. */
export interface ReportedQuantity {
  readonly metric: string;
  readonly dimensions: Readonly<Record<string, string>>;
  /** A plain decimal, at least 0. */
  readonly quantity: string;
}

/** What became of a reported request. `accepted`, `repeated` and `refused` are durable. */
export type Reception =
  | { readonly kind: 'accepted' }
  /** The same event came before and counts once. `subject` is set if it named another one. */
  | { readonly kind: 'repeated'; readonly subject?: string }
  /** A dead letter: it does not count. `reason` is `what: where: "input"`. */
  | { readonly kind: 'refused'; readonly reason: string };
