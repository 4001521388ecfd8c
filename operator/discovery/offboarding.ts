import type { Tenant } from '../model/tenant.ts';

/** The known presence of a customer. Times are milliseconds since the epoch. */
export type Presence =
  | { readonly kind: 'present' }
  | {
      readonly kind: 'missing';
      /** The first successful pass without it. */
      readonly since: number;
      /** Successful passes without it, counted up to 2. */
      readonly rounds: number;
      /** True if too many vanished at once: a second full grace must confirm it. */
      readonly held: boolean;
    }
  | {
      readonly kind: 'offboarded';
      readonly at: number;
      /** Delivery has durably accepted the departure. */
      readonly accepted?: true;
    };

export interface KnownTenant {
  /** As of its last pass. */
  readonly tenant: Tenant;
  readonly presence: Presence;
}

/** By customer id. */
export type KnownTenants = ReadonlyMap<string, KnownTenant>;

export interface OffboardingStep {
  readonly known: KnownTenants;
  /** Due in this step. */
  readonly offboarded: readonly Tenant[];
  /** Returned after their offboarding. */
  readonly returned: readonly Tenant[];
  /** How many missing tenants wait for a second grace, of how many in total. */
  readonly waiting: { readonly count: number; readonly of: number };
}

const PASSES_NEEDED = 2;
/**
 * A larger share vanishing at once is more likely a fault than departures
 * (docs/explanation/discovery.md#offboarding).
 */
const WAITING_SHARE = 1 / 5;
/**
 * By then every destination has finished with an offboarded customer
 * (docs/explanation/delivery.md#tenants).
 */
const FORGET_AFTER_MS = 90 * 86_400_000;

/**
 * Applies one successful pass to the known customers (docs/explanation/discovery.md#offboarding). A
 * customer that is missing in two passes and for the complete grace is offboarded. One that returns
 * starts again. Failed passes are never applied.
 */
export function stepOffboarding(
  known: KnownTenants,
  roster: {
    /** Customers with a metered cluster. */
    readonly tenants: readonly Tenant[];
    /**
     * Customers without a metered cluster that stay: all of their clusters are excluded, or objects
     * of a departed one are still billed.
     */
    readonly staying: ReadonlySet<string>;
  },
  now: number,
  graceMs: number,
): OffboardingStep {
  const next = new Map<string, KnownTenant>();
  const returned: Tenant[] = [];
  for (const tenant of roster.tenants) {
    if (known.get(tenant.id)?.presence.kind === 'offboarded') returned.push(tenant);
    next.set(tenant.id, { tenant, presence: { kind: 'present' } });
  }
  let vanished = 0;
  for (const [id, entry] of known) {
    if (next.has(id)) continue;
    if (roster.staying.has(id)) {
      if (entry.presence.kind !== 'offboarded') {
        next.set(id, { ...entry, presence: { kind: 'present' } });
      }
      continue;
    }
    if (entry.presence.kind === 'present') vanished++;
    if (isForgotten(entry.presence, now)) continue;
    const presence = oneMorePass(entry.presence, now);
    // Unchanged entries stay the same objects, so that comparing the many departed ones is fast.
    next.set(id, presence === entry.presence ? entry : { ...entry, presence });
  }

  const inAll = [...next.values()].filter(({ presence }) => presence.kind !== 'offboarded').length;
  const missing = [...next].filter(([, { presence }]) => presence.kind === 'missing');
  const tooMany = vanished > 0 && missing.length > inAll * WAITING_SHARE;
  const offboarded: Tenant[] = [];
  let waitingCount = 0;
  for (const [id, { tenant, presence }] of missing) {
    if (presence.kind !== 'missing') continue;
    const waiting = tooMany ? { ...presence, held: true } : presence;
    const due = waiting.since + graceMs * (waiting.held ? 2 : 1);
    if (waiting.rounds >= PASSES_NEEDED && now >= due) {
      next.set(id, { tenant, presence: { kind: 'offboarded', at: now } });
      offboarded.push(tenant);
      continue;
    }
    next.set(id, { tenant, presence: waiting });
    if (waiting.held) waitingCount++;
  }
  return { known: next, offboarded, returned, waiting: { count: waitingCount, of: inAll } };
}

/** The customers after delivery has accepted some departures. */
export function acceptOffboardings(
  known: KnownTenants,
  accepted: ReadonlySet<string>,
): KnownTenants {
  if (accepted.size === 0) return known;
  return new Map(
    [...known].map(([id, entry]) => {
      const { presence } = entry;
      if (presence.kind !== 'offboarded' || !accepted.has(id)) return [id, entry];
      return [id, { ...entry, presence: { ...presence, accepted: true } }];
    }),
  );
}

function oneMorePass(presence: Presence, now: number): Presence {
  if (presence.kind === 'offboarded') return presence;
  if (presence.kind === 'present') return { kind: 'missing', since: now, rounds: 1, held: false };
  return { ...presence, rounds: Math.min(presence.rounds + 1, PASSES_NEEDED) };
}

function isForgotten(presence: Presence, now: number): boolean {
  return presence.kind === 'offboarded' && now - presence.at > FORGET_AFTER_MS;
}
