import type { Metadata } from '../../../discovery/views.ts';

/*
 * The keys that enforcement writes on objects. LABEL_PREFIX does not change the keys that the
 * admission policy of config/components/suspension-policy reads. It changes those for people.
 */

/** On a namespace with a suspended tenant cluster's pods. The policy checks no others. */
export const SUSPENDED_LABEL = 'meterfeed.io/suspended';

/**
 * Followed by the name of a tenant cluster of that namespace. The value is `"true"` when it is
 * suspended, else `"false"`.
 */
export const SUSPENDED_CLUSTER_PREFIX = 'suspended.meterfeed.io/';

/** On such a namespace: the users, comma-separated, that only suspended tenant clusters use. */
export const SUSPENDED_ACCOUNTS = 'meterfeed.io/suspended-accounts';

/** The labels and annotations of enforcement on one object, observed or desired. */
export interface Marks {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export const NO_MARKS: Marks = { labels: {}, annotations: {} };

/** Keys for people: `<label prefix>/billing-state` … (docs/how-to/enforcement.md#modes). */
export function stateKeys(labelPrefix: string) {
  return {
    state: `${labelPrefix}/billing-state`,
    reason: `${labelPrefix}/billing-reason`,
    since: `${labelPrefix}/billing-state-at`,
  };
}

/** The labels and annotations of an object that only enforcement writes. */
export function marksOf({ labels, annotations }: Metadata, labelPrefix: string): Marks {
  const { state, reason, since } = stateKeys(labelPrefix);
  const isOurs = (key: string): boolean =>
    [SUSPENDED_LABEL, SUSPENDED_ACCOUNTS, state, reason, since].includes(key) ||
    key.startsWith(SUSPENDED_CLUSTER_PREFIX);
  return { labels: pick(labels, isOurs), annotations: pick(annotations, isOurs) };
}

/** A canonical text: equal for equal marks. */
export function textOfMarks({ labels, annotations }: Marks): string {
  return JSON.stringify([sorted(labels), sorted(annotations)]);
}

type Texts = Readonly<Record<string, string>>;

function pick(texts: Texts, wanted: (key: string) => boolean): Texts {
  return Object.fromEntries(Object.entries(texts).filter(([key]) => wanted(key)));
}

function sorted(texts: Texts): readonly (readonly [string, string])[] {
  return Object.entries(texts).toSorted(([a], [b]) => (a < b ? -1 : 1));
}
