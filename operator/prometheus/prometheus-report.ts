/** What an administrator should know about the queries of the last window (docs/reference/troubleshooting.md#conditions). */
export interface PrometheusReport {
  /** Why no query at all is answered; absent while one is. */
  readonly silent?: string;
  /** How many queries named one tenant cluster each, where those are too many. */
  readonly manyQueries?: number;
  /** Queries that were not sent, by metric and placeholder. */
  readonly leftOut: readonly LeftOutQuery[];
}

/** A query that was not sent for some tenant clusters: without the name it would select the series of others. */
export interface LeftOutQuery {
  readonly metric: string;
  /** The name that they lack, such as `project`. */
  readonly placeholder: string;
  readonly tenantClusters: number;
  /** The id of one of them. */
  readonly example: string;
}

/** One query of one tenant cluster that was not sent. */
export interface LeftOutJob extends Pick<LeftOutQuery, 'metric' | 'placeholder'> {
  readonly tenantCluster: string;
}

/** Counts the queries that were not sent, by metric and placeholder, in the order in which they were met. */
export function countLeftOut(jobs: readonly LeftOutJob[]): readonly LeftOutQuery[] {
  return [...Map.groupBy(jobs, keyOf)].flatMap(([, group]) => {
    const [first] = group;
    if (first === undefined) return [];
    const { metric, placeholder, tenantCluster: example } = first;
    return [{ metric, placeholder, tenantClusters: group.length, example }];
  });
}

/** The queries that were not sent now and were, or were not there, before. */
export function newlyLeftOut(
  now: readonly LeftOutQuery[],
  before: readonly LeftOutQuery[],
): readonly LeftOutQuery[] {
  const known = new Set(before.map(keyOf));
  return now.filter((query) => !known.has(keyOf(query)));
}

/** A line for people: what is not measured, for how many, and how to fix it. */
export function describeLeftOut({
  metric,
  placeholder,
  tenantClusters,
  example,
}: LeftOutQuery): string {
  return `a query of ${metric} is not sent for ${tenantClusters} tenant clusters that have no {{${placeholder}}}, such as "${example}", and measures nothing there: give them one, or another query or none in a TenantOverride`;
}

function keyOf({ metric, placeholder }: Pick<LeftOutQuery, 'metric' | 'placeholder'>): string {
  return `${metric} ${placeholder}`;
}
