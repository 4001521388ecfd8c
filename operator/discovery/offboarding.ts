import type { Tenant } from '../model/tenant.ts';

/** What is known of a customer's presence. Times are milliseconds since the epoch. */
export type Presence =
  | { readonly kind: 'present' }
  | {
      readonly kind: 'missing';
      /** The first successful round without it. */
      readonly since: number;
      /** Successful rounds without it; counted to 2. */
      readonly rounds: number;
      /** Too many vanished at once: a further full grace must confirm it. */
      readonly held: boolean;
    }
  | {
      readonly kind: 'offboarded';
      readonly at: number;
      /** Delivery has durably taken the farewell over. */
      readonly accepted?: true;
    };

export interface KnownTenant {
  /** As it was last seen. */
  readonly tenant: Tenant;
  readonly presence: Presence;
}

/** By customer id. */
export type KnownTenants = ReadonlyMap<string, KnownTenant>;

export interface OffboardingStep {
  readonly known: KnownTenants;
  /** Due in this step. */
  readonly offboarded: readonly Tenant[];
  /** There again, having been offboarded. */
  readonly returned: readonly Tenant[];
  /** How many are waiting for a further grace, of how many in all. */
  readonly held: { readonly count: number; readonly of: number };
}

const PASSES_NEEDED = 2;
/** A larger share than this vanishing at once is more likely a fault than so many departures (docs/explanation/discovery.md#offboarding). */
const HELD_SHARE = 1 / 5;
/** By then every destination has long finished with an offboarded customer (docs/explanation/delivery.md#tenants). */
const FORGET_AFTER_MS = 90 * 86_400_000;

/**
 * What one successful round means for offboarding (docs/explanation/discovery.md#offboarding): a customer that is
 * missing in two rounds and for the whole grace is offboarded; one that returns starts anew. Rounds
 * that failed never come here.
 */
export function stepOffboarding(
  known: KnownTenants,
  roster: {
    /** Customers with a metered cluster. */
    readonly tenants: readonly Tenant[];
    /**
     * Customers without one that are still there: all of their clusters are left unmetered, or objects
     * of one that is gone are billed on.
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
    // The many that are gone stay the same objects, so that comparing them costs nothing.
    next.set(id, presence === entry.presence ? entry : { ...entry, presence });
  }

  const inAll = [...next.values()].filter(({ presence }) => presence.kind !== 'offboarded').length;
  const missing = [...next].filter(([, { presence }]) => presence.kind === 'missing');
  const hold = vanished > 0 && missing.length > inAll * HELD_SHARE;
  const offboarded: Tenant[] = [];
  let held = 0;
  for (const [id, { tenant, presence }] of missing) {
    if (presence.kind !== 'missing') continue;
    const waiting = hold ? { ...presence, held: true } : presence;
    const due = waiting.since + graceMs * (waiting.held ? 2 : 1);
    if (waiting.rounds >= PASSES_NEEDED && now >= due) {
      next.set(id, { tenant, presence: { kind: 'offboarded', at: now } });
      offboarded.push(tenant);
      continue;
    }
    next.set(id, { tenant, presence: waiting });
    if (waiting.held) held++;
  }
  return { known: next, offboarded, returned, held: { count: held, of: inAll } };
}

/** The customers after delivery has taken over the farewell of some. */
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
