import type { Bracket } from '../../kubernetes/source.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import { type Gaps, UNSEEN } from './gaps.ts';
import type { Scopes, UnseenStretch } from './scopes.ts';
import { TENANT_API, type TenantScope } from './tenant-scopes.ts';

export interface UnseenStretchesOptions {
  readonly scopes: Pick<Scopes, 'unseen' | 'windowMs'>;
  readonly gaps: Pick<Gaps, 'note'>;
  readonly metrics: Pick<CollectorMetrics, 'gapSeconds'>;
}

/** They say what devices there are; nobody is billed for how long a slice was there. */
const SLICES = 'resourceslices';

/** A stretch up to so many windows is what a restart or an upgrade takes. */
const TOLERATED_WINDOWS = 2;

/**
 * Records as gaps the stretches that no watch covered and that are longer than two windows
 * (docs/explanation/gaps.md#usage-that-nobody-saw). What lived through one is billed as if it had been watched; what
 * came and went within it is unknown.
 */
export class UnseenStretches {
  readonly #options: UnseenStretchesOptions;
  /** What has been read once; a gap that is forgotten does not come back. */
  readonly #read = new WeakSet<Bracket>();

  constructor(options: UnseenStretchesOptions) {
    this.#options = options;
  }

  /**
   * Notes what is new on this cluster and in these tenant clusters. To be called before each write that says
   * where their watches resume.
   */
  note(tenants: Iterable<TenantScope>): void {
    this.#noteAll(this.#options.scopes.unseen());
    // A tenant cluster names the watch of this cluster's nodes too, whose stretches are read by now.
    this.#noteAll([...tenants].flatMap(unseenInTenantApi));
  }

  #noteAll(all: readonly UnseenStretch[]): void {
    const { scopes, gaps, metrics } = this.#options;
    const longestMs = TOLERATED_WINDOWS * scopes.windowMs;
    const fresh = all
      .filter(({ stretch }) => !this.#read.has(stretch))
      // One that begins earlier takes in those that it overlaps.
      .toSorted((a, b) => a.from - b.from);
    for (const { from, source, stretch, scopes: costs } of fresh) {
      this.#read.add(stretch);
      const { until: to } = stretch;
      if (from === 0 || to - from <= longestMs) continue;
      for (const scope of costs) {
        const added = gaps.note({ source, scope, from, to, reason: UNSEEN });
        metrics.gapSeconds.inc({ source }, added / 1_000);
      }
    }
  }
}

function unseenInTenantApi({ tenant, scope }: TenantScope): readonly UnseenStretch[] {
  const scopes = scope.expected ? [tenant.id] : [];
  return tenant.sources
    .filter(({ resource }) => resource.plural !== SLICES)
    .flatMap((source) => source.health().unseen ?? [])
    .map((stretch) => ({ stretch, from: stretch.from, source: TENANT_API, scopes }));
}
