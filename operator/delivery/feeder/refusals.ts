import type { BlockReason, DeliveryResult, QueuedEvent } from '../delivery-result.ts';

/** Refusals in a row that mean that the destination refuses everything. */
const EVERYTHING = 1_000;
/** How many of these may be of one tenant, so that one poisoned tenant alone does not hold up others. */
const OF_ONE_TENANT = 500;
/** Refusals in a row that are everything even where they are all of one tenant. */
const AT_MOST = 10_000;

/**
 * Notices a destination that refuses everything. It is misconfigured, so that its events are not at fault
 * and must wait: as dead letters they would fill the volume, on which metering itself depends
 * (docs/explanation/delivery.md#when-something-goes-wrong). Counts from the start of the feeder, which a change of
 * settings is, or from the last event that was accepted.
 */
export class Refusals {
  readonly #byTenant = new Map<string, number>();
  #total = 0;
  #counted = 0;

  /** The destination took something. */
  accepted(): void {
    this.#byTenant.clear();
    this.#total = 0;
    this.#counted = 0;
  }

  /**
   * Takes out of the results what is refused after everything else was: these events stay where they are,
   * and the destination is to be held for the reason returned.
   */
  withhold(
    tried: readonly QueuedEvent[],
    results: Map<number, DeliveryResult>,
  ): BlockReason | undefined {
    if ([...results.values()].some(({ kind }) => kind === 'delivered')) {
      this.accepted();
      return undefined;
    }
    let held: BlockReason | undefined;
    for (const { sequence, event } of tried) {
      const result = results.get(sequence);
      if (result?.kind !== 'dead' || result.refused !== true) continue;
      if (this.#isEverything()) {
        results.delete(sequence);
        held = { kind: 'hold', reason: this.#reason(result.reason) };
      } else {
        this.#count(event.tenant);
      }
    }
    return held;
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
    return `refuses everything: ${this.#total} events of ${tenants} in a row, and took none; the last answer: ${answer}`;
  }
}
