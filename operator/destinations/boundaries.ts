import type { Tenant } from '../model/tenant.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { BoundariesOutcome, Stretch } from './destination.ts';

/**
 * Hours are added up shortly after their ends: what has begun to bill a tenant within the hour, such as a price that
 * somebody has attached, is known by then.
 */
const LOOK_AGAIN_MS = 600_000;

/** What a billing system says of when a tenant is billed differently, whatever the stretch of time. */
export type LookUpBoundaries = (tenant: Tenant, signal: AbortSignal) => Promise<BoundariesOutcome>;

/** Asks for {@link Destination.boundaries} every ten minutes at the most for each tenant. */
export class Boundaries {
  readonly #clock: Clock;
  readonly #lookUp: LookUpBoundaries;
  readonly #found = new Map<string, { readonly at: readonly number[]; readonly until: number }>();

  constructor(clock: Clock, lookUp: LookUpBoundaries) {
    this.#clock = clock;
    this.#lookUp = lookUp;
  }

  /** Of how many tenants it knows them. */
  get known(): number {
    return this.#found.size;
  }

  async within(
    tenant: Tenant,
    { from, to }: Stretch,
    signal: AbortSignal,
  ): Promise<BoundariesOutcome> {
    const now = this.#clock.monotonic();
    let found = this.#found.get(tenant.id);
    if (found === undefined || found.until <= now) {
      const outcome = await this.#lookUp(tenant, signal);
      if (outcome.kind !== 'boundaries') return outcome;
      for (const [id, { until }] of this.#found) if (until <= now) this.#found.delete(id);
      found = { at: outcome.at, until: now + LOOK_AGAIN_MS };
      this.#found.set(tenant.id, found);
    }
    return { kind: 'boundaries', at: found.at.filter((at) => at >= from && at < to) };
  }
}
