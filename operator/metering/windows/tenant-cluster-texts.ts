import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { encodeJson } from '../timelines/journal-text.ts';
import type { TenantClusterSnapshot } from '../timelines/tenant-cluster-snapshot.ts';
import { JOURNAL_VERSION } from './journal.ts';

/**
 * JSON of all tenant clusters for the journal, with one cached text each. Any change writes all of
 * them again. Encoding a thousand at once would block the event loop for too long.
 */
export class TenantClusterTexts {
  /** States are replaced when they change and never modified. */
  readonly #texts = new WeakMap<TenantCluster, string>();

  /** Encodes new states one by one, and yields after each. */
  *make(snapshot: TenantClusterSnapshot): Generator<void> {
    for (const { cluster } of snapshot) {
      this.#of(cluster);
      yield;
    }
  }

  /** The same text as `encodeJson` of `{ v, clusters: snapshot }`. */
  of(snapshot: TenantClusterSnapshot): string {
    return `{"v":${JOURNAL_VERSION},"clusters":[${snapshot.map((row) => this.#rowOf(row)).join(',')}]}`;
  }

  #rowOf({ from, to, cluster, ...others }: TenantClusterSnapshot[number]): string {
    const more = JSON.stringify(others).slice(1, -1);
    const row = `{"from":${from},"to":${to},"cluster":${this.#of(cluster)}`;
    return more === '' ? `${row}}` : `${row},${more}}`;
  }

  #of(cluster: TenantCluster): string {
    const known = this.#texts.get(cluster);
    if (known !== undefined) return known;
    const text = encodeJson(cluster);
    this.#texts.set(cluster, text);
    return text;
  }
}
