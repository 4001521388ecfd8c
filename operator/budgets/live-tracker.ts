import { least } from '../model/extremes.ts';
import type { Collector } from '../windows/collector.ts';
import type { BudgetAccount } from './account.ts';
import { LiveSums } from './live-sums.ts';

export interface LiveTrackerOptions {
  readonly windows: Pick<Collector, 'live' | 'closedUntil'>;
  readonly isCharged: (metric: string) => boolean;
}

/** What of a namespace is to be measured anew. */
interface Place {
  /** Pods by their uids. */
  pods: Set<string> | 'all';
  /** What the rest was measured by; undefined where it is to be measured. */
  mark: string | undefined;
}

/** Whose objects a namespace may have, by namespace. */
type TenantsIn = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * What goes on of tenants that have a budget: what has changed is measured when its tenant is looked at, by itself
 * (docs/budgets.md#what-counts).
 */
export class LiveTracker {
  readonly #options: LiveTrackerOptions;
  readonly #sums: LiveSums;
  readonly #places = new Map<string, Place>();
  #tenantsIn: TenantsIn = new Map();
  #namespacesOf: ReadonlyMap<string, readonly string[]> = new Map();
  /** From when on usage counts, by tenant. */
  #froms = new Map<string, number>();
  /** Up to where windows were closed when accounts last heard of it, by scope. */
  #closedUntil: ReadonlyMap<string, number> = new Map();

  constructor(options: LiveTrackerOptions) {
    this.#options = options;
    this.#sums = new LiveSums(({ tenant, metric }) => {
      return this.#namespacesOf.has(tenant) && options.isCharged(metric);
    });
  }

  /** These are the tenants, where their objects may be, and from when on their usage counts. */
  track(tenantsIn: TenantsIn, froms: ReadonlyMap<string, number>): void {
    const since = new Map([...this.#places.keys()].map((each) => [each, this.#sinceIn(each)]));
    const namespacesOf = new Map<string, string[]>();
    for (const [namespace, tenants] of tenantsIn) {
      for (const tenant of tenants) {
        namespacesOf.set(tenant, [...(namespacesOf.get(tenant) ?? []), namespace]);
      }
      const before = this.#tenantsIn.get(namespace);
      const isKnown = [...tenants].every((tenant) => before?.has(tenant) === true);
      if (!isKnown) this.#places.set(namespace, { pods: 'all', mark: undefined });
    }
    this.#tenantsIn = tenantsIn;
    this.#namespacesOf = namespacesOf;
    this.#froms = new Map(froms);
    for (const namespace of this.#places.keys()) {
      if (tenantsIn.has(namespace)) {
        if (since.get(namespace) !== this.#sinceIn(namespace)) this.#outdateAll(namespace);
        continue;
      }
      this.#places.delete(namespace);
      this.#sums.forget(namespace);
    }
    this.#sums.keepOnly(namespacesOf);
  }

  /** The usage of a tenant counts from a window on. */
  countFrom(tenant: string, from: number): void {
    this.#froms.set(tenant, from);
    for (const namespace of this.#namespacesOf.get(tenant) ?? []) this.#outdateAll(namespace);
  }

  /** An object has come, changed or gone. Gives whose it may be. */
  changed(namespace: string, uid: string): Iterable<string> {
    const place = this.#places.get(namespace);
    if (place !== undefined && place.pods !== 'all') place.pods.add(uid);
    return this.#tenantsIn.get(namespace) ?? [];
  }

  /** The usage of all pods of some namespaces may be another. Gives whose they may be. */
  sampled(namespaces: ReadonlySet<string>): ReadonlySet<string> {
    const here = [...namespaces].filter((namespace) => this.#places.has(namespace));
    for (const namespace of here) this.#outdate(namespace, 'all');
    return this.#tenantsOf(here);
  }

  /** Looks for what no watch of an object tells. Gives whose usage may be another for it. */
  look(): ReadonlySet<string> {
    const unseen = this.#options.windows.live.unseen(this.#places.keys());
    for (const [namespace, pods] of unseen) {
      if (pods === 'all') this.#outdateAll(namespace);
      else this.#outdate(namespace, pods);
    }
    return this.#tenantsOf(unseen.keys());
  }

  /**
   * To be called before usage of the ledger is added to accounts, without a wait between: what windows came to that are
   * closed since does not go on any more. Gives of whom that changes anything.
   */
  close(): ReadonlySet<string> {
    const ends = this.#options.windows.closedUntil();
    const before = this.#closedUntil;
    if (ends.size === before.size && [...ends].every(([scope, end]) => before.get(scope) === end)) {
      return new Set();
    }
    this.#closedUntil = ends;
    const late = this.#sums.close(ends);
    for (const [namespace, names] of late) {
      this.#outdate(
        namespace,
        names.filter((name) => !isOther(name)),
      );
      const place = this.#places.get(namespace);
      if (place !== undefined && names.some(isOther)) place.mark = undefined;
    }
    return new Set(this.#sums.changed());
  }

  /** Measures what of a tenant has changed, or everything; false where some of it cannot be told yet. */
  measure(tenant: string, isWhole: boolean): boolean {
    let isMeasured = true;
    for (const namespace of this.#namespacesOf.get(tenant) ?? []) {
      const place = this.#places.get(namespace);
      if (place === undefined) continue;
      if (isWhole) place.pods = 'all';
      try {
        if (!this.#measurePods(namespace, place)) isMeasured = false;
        if (!this.#measureOthers(namespace, place)) isMeasured = false;
      } catch {
        // What cannot be measured is not billed either until its window can be closed, and a gap says so.
        place.pods = new Set();
      }
    }
    return isMeasured;
  }

  /** Tells an account of a tenant what has changed since the last one was told; a new one everything. */
  tell(tenant: string, account: BudgetAccount, isNew = false): void {
    this.#sums.tell(tenant, account, isNew);
  }

  #outdateAll(namespace: string): void {
    this.#outdate(namespace, 'all');
    const place = this.#places.get(namespace);
    if (place !== undefined) place.mark = undefined;
  }

  #outdate(namespace: string, pods: 'all' | readonly string[]): void {
    const place = this.#places.get(namespace);
    if (place === undefined || place.pods === 'all') return;
    if (pods === 'all') place.pods = 'all';
    else for (const uid of pods) place.pods.add(uid);
  }

  #tenantsOf(namespaces: Iterable<string>): ReadonlySet<string> {
    const tenants = new Set<string>();
    for (const namespace of namespaces) {
      for (const tenant of this.#tenantsIn.get(namespace) ?? []) tenants.add(tenant);
    }
    return tenants;
  }

  #measurePods(namespace: string, place: Place): boolean {
    const { live } = this.#options.windows;
    const asked = { namespace, since: this.#sinceIn(namespace) };
    if (place.pods === 'all') {
      const parts = live.pods(asked);
      if (parts === undefined) return false;
      const gone = new Set([...this.#sums.namesIn(namespace)].filter((name) => !isOther(name)));
      for (const [uid, part] of parts) {
        this.#sums.put(namespace, uid, part);
        gone.delete(uid);
      }
      place.pods = gone;
    }
    if (place.pods.size === 0) return true;
    const parts = live.pods(asked, place.pods);
    if (parts === undefined) return false;
    for (const [uid, part] of parts) this.#sums.put(namespace, uid, part);
    place.pods = new Set();
    return true;
  }

  #measureOthers(namespace: string, place: Place): boolean {
    const { live } = this.#options.windows;
    const mark = live.othersMark(namespace);
    if (mark === place.mark) return true;
    const parts = live.others({ namespace, since: this.#sinceIn(namespace) });
    if (parts === undefined) return false;
    for (const part of parts) this.#sums.put(namespace, otherOf(part.scope), part);
    place.mark = mark;
    return true;
  }

  /** Earlier usage counts for nobody here. */
  #sinceIn(namespace: string): number {
    const froms = [...(this.#tenantsIn.get(namespace) ?? [])].flatMap((tenant) => {
      const from = this.#froms.get(tenant);
      return from !== undefined && Number.isFinite(from) ? [from] : [];
    });
    return froms.length === 0 ? Number.NEGATIVE_INFINITY : least(froms);
  }
}

/** The name of everything of a kind in a namespace, which is no uid; the kind's scope may be the namespace's own. */
function otherOf(scope: string): string {
  const [kind = ''] = scope.split('/');
  return `/${kind}`;
}

function isOther(name: string): boolean {
  return name.startsWith('/');
}
