/**
 * Problems of the last window's queries, for an administrator
 * (docs/reference/troubleshooting.md#conditions).
 */
export interface PrometheusReport {
  /** Why the server answers no query; absent while it answers any. */
  readonly silent?: string;
  /** How many queries covered a single tenant cluster; absent unless there are too many. */
  readonly manyQueries?: number;
  /** Queries that were not sent, by metric and placeholder. */
  readonly leftOut: readonly LeftOutQuery[];
}

/**
 * A query that was not sent for some tenant clusters, because a name is missing. Without it the
 * query would select the series of others.
 */
export interface LeftOutQuery {
  readonly metric: string;
  /** The missing name, such as `project`. */
  readonly placeholder: string;
  readonly tenantClusters: number;
  /** The id of one of these tenant clusters. */
  readonly example: string;
}

/** One query of one tenant cluster that was not sent. */
export interface LeftOutJob extends Pick<LeftOutQuery, 'metric' | 'placeholder'> {
  readonly tenantCluster: string;
}

/** Counts the queries that were not sent, by metric and placeholder, in order of appearance. */
export function countLeftOut(jobs: readonly LeftOutJob[]): readonly LeftOutQuery[] {
  return [...Map.groupBy(jobs, keyOf)].flatMap(([, group]) => {
    const [first] = group;
    if (first === undefined) return [];
    const { metric, placeholder, tenantCluster: example } = first;
    return [{ metric, placeholder, tenantClusters: group.length, example }];
  });
}

/** The queries that are left out now and were not left out before. */
export function newlyLeftOut(
  now: readonly LeftOutQuery[],
  before: readonly LeftOutQuery[],
): readonly LeftOutQuery[] {
  const known = new Set(before.map(keyOf));
  return now.filter((query) => !known.has(keyOf(query)));
}

/** A text for people: what is not measured, for how many, and how to fix it. */
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
