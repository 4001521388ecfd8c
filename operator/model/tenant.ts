/** A billing customer and what belongs to it, as discovery and overrides say. */
export interface Tenant {
  readonly id: string;
  readonly displayName: string;
  readonly email?: string;
  readonly project?: string;
  readonly tenantClass?: string;
  readonly plan?: string;
  readonly currency?: string;
  readonly costCenter?: string;
  readonly stripeCustomerId?: string;
  readonly metronomeCustomerId?: string;
  readonly region: string;
  /** Ids of its tenant clusters, sorted. */
  readonly clusters: readonly string[];
  /** Creation of its oldest tenant cluster, milliseconds since the epoch. */
  readonly createdAt: number;
  /**
   * The earliest window start that may have to be billed, milliseconds since the epoch; the delivery
   * engine fills it in. A subscription that begins later would leave usage unbilled.
   */
  readonly billableFrom?: number;
}
