import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Decimal } from '../model/decimal.ts';
import type { EventProperty } from '../model/event.ts';
import type { Window } from '../model/window.ts';
import type { QueryOutcome } from './query-answer.ts';

/** One metric that is measured by asking Prometheus. */
export interface Measure {
  /** The metric's code. */
  readonly metric: string;
  readonly unit: string;
  /** What to ask about a tenant cluster. */
  plan(subject: MeasuredCluster, window: Window): Plan;
  /** What the answer comes to. Rows that cannot be charged are named and cost only themselves. */
  read(answer: Answer, window: Window): Reading;
}

/** A tenant cluster, and what tells it from others in a query. */
export interface MeasuredCluster {
  readonly cluster: TenantCluster;
  /** Another tenant cluster shared its namespace during the window. */
  readonly sharesNamespace: boolean;
  /** No other tenant cluster had its name during the window. */
  readonly uniqueName: boolean;
}

export type Plan =
  /** Switched off for this tenant cluster. */
  | { readonly kind: 'off' }
  /** The query selects by a name that the tenant cluster does not have, so nothing is its own. */
  | { readonly kind: 'nameless'; readonly placeholder: string }
  /** It cannot be told what is this tenant cluster's: unknown, which is not zero. */
  | { readonly kind: 'unclear'; readonly reason: string }
  | {
      readonly kind: 'ask';
      readonly promql: string;
      /** Asked beside it; informational, so its failure costs nothing else. */
      readonly beside?: string;
    };

/** What came back for a plan. */
export interface Answer {
  readonly rows: Extract<QueryOutcome, { kind: 'vector' }>;
  readonly beside?: Extract<QueryOutcome, { kind: 'vector' }>;
}

/** What the rows of a result come to, for one tenant cluster and window. */
export interface Reading {
  readonly charges: readonly MeasuredCharge[];
  /** Why rows were refused, `what: where: "input"` each. */
  readonly refused: readonly string[];
}

/** One amount; what tells it from the others is its sku and dimensions. */
export interface MeasuredCharge {
  readonly quantity: Decimal;
  readonly sku?: string;
  readonly dimensions?: Readonly<Record<string, string>>;
  readonly properties?: Readonly<Record<string, EventProperty>>;
}
