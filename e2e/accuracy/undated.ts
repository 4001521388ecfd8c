import type { Watched } from './figures.ts';

/** A moment that lies between these two, by our clock; milliseconds since the epoch. */
export interface Moment {
  readonly from: number;
  readonly to: number;
}

/** An amount of a metric that was held for a while. */
export interface Stretch {
  readonly metric: string;
  readonly perHour: number;
  readonly from: Moment;
  readonly to: Moment;
}

/** Something of which the API does not date every change, and what it really came to. */
export interface Undated {
  /** What has happened to it, for the figures. */
  readonly what: string;
  readonly name: string;
  /** The watch that tells of it. */
  readonly kind: Watched;
  /** Under which its events are found: {@link accountOf}. */
  readonly accounts: readonly string[];
  /** The API dates its changes, but nobody may have seen them: nothing is forgiven for their way to the operator. */
  readonly dated?: true;
  /** Its tenant cluster was there only while nobody could see it. */
  readonly ownerUnseen?: true;
  readonly stretches: readonly Stretch[];
}

/** Whose bill, and which part of it: a namespace inside the tenant cluster, or a node. */
export function accountOf(tenantCluster: string, part: string): string {
  return `${tenantCluster} ${part}`;
}

/** A moment that the API itself says. */
export function exactly(at: number): Moment {
  return { from: at, to: at };
}

/** When the API server stored what it was asked to: between the question and its answer. */
export async function momentOf(change: () => Promise<unknown>): Promise<Moment> {
  const from = Date.now();
  await change();
  return { from, to: Date.now() };
}
