import type { Bracket } from '../../kubernetes/source.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import { type Gaps, UNSEEN } from './gaps.ts';
import type { Scopes, UnseenStretch } from './scopes.ts';
import { TENANT_API, type TenantScopeState } from './tenant-scopes.ts';

/** Slices list devices. Nobody is billed for the lifetime of a slice. */
const SLICES = 'resourceslices';

/** A restart or an upgrade takes up to this many windows. */
const TOLERATED_WINDOWS = 2;

/**
 * Records a gap for each stretch longer than two windows that no watch covered
 * (docs/explanation/gaps.md#usage-that-nobody-saw). Objects that existed before and after it are
 * billed normally. Objects that came and went within it are unknown.
 */
export class UnseenStretches {
  readonly #options;
  /** Stretches that were read once, so that a removed gap does not come back. */
  readonly #read = new WeakSet<Bracket>();

  constructor(options: {
    readonly scopes: Pick<Scopes, 'unseen' | 'windowMs'>;
    readonly gaps: Pick<Gaps, 'note'>;
    readonly metrics: Pick<CollectorMetrics, 'gapSeconds'>;
  }) {
    this.#options = options;
  }

  /**
   * Notes new stretches of this cluster and of these tenant clusters. Call it before each write of
   * their watches' resume points.
   */
  note(tenants: Iterable<TenantScopeState>): void {
    this.#noteAll(this.#options.scopes.unseen());
    // Tenant clusters share the watch of this cluster's nodes. Its stretches are read by now.
    this.#noteAll([...tenants].flatMap(unseenInTenantApi));
  }

  #noteAll(all: readonly UnseenStretch[]): void {
    const { scopes, gaps, metrics } = this.#options;
    const longestMs = TOLERATED_WINDOWS * scopes.windowMs;
    const fresh = all
      .filter(({ stretch }) => !this.#read.has(stretch))
      // A gap that begins earlier absorbs the ones that it overlaps.
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

function unseenInTenantApi({ tenant, scope }: TenantScopeState): readonly UnseenStretch[] {
  const scopes = scope.expected ? [tenant.id] : [];
  return tenant.sources
    .filter(({ resource }) => resource.plural !== SLICES)
    .flatMap((source) => source.health().unseen ?? [])
    .map((stretch) => ({ stretch, from: stretch.from, source: TENANT_API, scopes }));
}
