import type { UsageEvent } from '../model/event.ts';

/** An event on its way to one destination. */
export interface Entry {
  readonly sequence: number;
  readonly event: UsageEvent;
}

/**
 * What became of an event here, once and for all: the destination has it, does not want its metric, or
 * will never accept it; or it waits, in order, for its tenant. An `uncertain` dead letter may have been
 * accepted earlier without our knowing.
 */
export type Verdict =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'skipped' }
  | { readonly kind: 'dead'; readonly reason: string; readonly uncertain?: true }
  | { readonly kind: 'parked'; readonly reason: string };

/**
 * Why nothing more can be sent now: `retry` is over by itself, after `afterMs` if the other side said
 * so; `hold` needs an operator.
 */
export interface Trouble {
  readonly kind: 'retry' | 'hold';
  readonly reason: string;
  readonly afterMs?: number;
}

/** The event of each tenant whose window starts first; usage that is pushed in comes in any order. */
export function earliestByTenant(entries: readonly Entry[]): ReadonlyMap<string, UsageEvent> {
  const earliest = new Map<string, UsageEvent>();
  for (const { event } of entries) {
    const before = earliest.get(event.tenant);
    if (before === undefined || event.window_start < before.window_start) {
      earliest.set(event.tenant, event);
    }
  }
  return earliest;
}

/** The worse of two troubles: a hold outranks a retry, a longer wait a shorter one. */
export function worse(a: Trouble | undefined, b: Trouble | undefined): Trouble | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  if (a.kind !== b.kind) return a.kind === 'hold' ? a : b;
  return (b.afterMs ?? 0) > (a.afterMs ?? 0) ? b : a;
}
