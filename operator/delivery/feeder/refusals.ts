import type { BlockReason, DeliveryResult, QueuedEvent } from '../delivery-result.ts';

/** Number of refusals in a row from which the destination counts as refusing everything. */
const EVERYTHING = 1_000;
/** Most of these that count for one tenant, so that a faulty tenant alone blocks nobody. */
const OF_ONE_TENANT = 500;
/** Number of refusals in a row that suffices even if all are of one tenant. */
const AT_MOST = 10_000;

/**
 * Detects a destination that refuses everything. It is misconfigured, so its events must wait: as
 * dead letters they would fill the volume, on which metering depends
 * (docs/explanation/delivery.md#when-something-goes-wrong). Counts from the last accepted event, or
 * from the start of the feeder. A change of settings starts a new feeder.
 */
export class Refusals {
  readonly #byTenant = new Map<string, number>();
  #total = 0;
  #counted = 0;

  /** Starts the count again: the destination accepted something. */
  accepted(): void {
    this.#byTenant.clear();
    this.#total = 0;
    this.#counted = 0;
  }

  /**
   * Removes refusals from the results once the destination refuses everything. These events stay
   * pending. Returns the reason that blocks the destination; undefined if it does not refuse
   * everything.
   */
  withhold(
    tried: readonly QueuedEvent[],
    results: Map<number, DeliveryResult>,
  ): BlockReason | undefined {
    if ([...results.values()].some(({ kind }) => kind === 'delivered')) {
      this.accepted();
      return undefined;
    }
    let blocked: BlockReason | undefined;
    for (const { sequence, event } of tried) {
      const result = results.get(sequence);
      if (result?.kind !== 'dead' || result.refused !== true) continue;
      if (this.#isEverything()) {
        results.delete(sequence);
        blocked = { kind: 'blocked', reason: this.#reason(result.reason) };
      } else {
        this.#count(event.tenant);
      }
    }
    return blocked;
  }

  #isEverything(): boolean {
    return this.#counted >= EVERYTHING || this.#total >= AT_MOST;
  }

  #count(tenant: string): void {
    const before = this.#byTenant.get(tenant) ?? 0;
    this.#byTenant.set(tenant, before + 1);
    this.#total += 1;
    if (before < OF_ONE_TENANT) this.#counted += 1;
  }

  #reason(answer: string): string {
    const tenants = this.#byTenant.size === 1 ? '1 tenant' : `${this.#byTenant.size} tenants`;
    return `refuses everything: ${this.#total} events of ${tenants} in a row, and accepted none; the last answer: ${answer}`;
  }
}
