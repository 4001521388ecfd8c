import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { encodeJson } from '../timelines/journal-text.ts';
import type { TenantClusterSnapshot } from '../timelines/tenant-cluster-snapshot.ts';
import { JOURNAL_VERSION } from './journal.ts';

/**
 * The text of all tenant clusters for the journal, of which each is written out once: one that comes or goes
 * has all of them written, and a thousand take so long that everybody else would be kept waiting.
 */
export class TenantClusterTexts {
  /** States are replaced when they change, never written to. */
  readonly #texts = new WeakMap<TenantCluster, string>();

  /** Writes out what is new, one state after the other, with time for others after each. */
  *make(snapshot: TenantClusterSnapshot): Generator<void> {
    for (const { cluster } of snapshot) {
      this.#of(cluster);
      yield;
    }
  }

  /** As `encodeJson` makes it of `{ v, clusters: snapshot }`. */
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
