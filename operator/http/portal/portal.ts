import type { IdentitySettings } from '../../config/settings.ts';
import type { Ledger, WriteOutcome } from '../../ledger/ledger.ts';
import type { Secret } from '../../model/secret.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { type PortalClaims, PortalTokens } from './portal-tokens.ts';
import { Revocations } from './revocations.ts';

/** A token that was made, with the fragment-borne link to the page; only whoever asked for it may see it. */
export interface MintedToken {
  readonly id: string;
  readonly token: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** `ended`: it was good once; it has expired or was revoked. */
export type PortalVerdict =
  | { readonly kind: 'good'; readonly claims: PortalClaims }
  | { readonly kind: 'ended' }
  | { readonly kind: 'unknown' };

/** Who may look at one tenant's own view (docs/portal.md). */
export interface Portal {
  /** False without a key: then there is no portal. */
  isOn(): boolean;
  /** Undefined where there is no key. Rejects where the ledger cannot be read. */
  mint(tenant: string, validMs: number): Promise<MintedToken | undefined>;
  /** Rejects where the ledger cannot be read: whether it was revoked is not known then. */
  verdictOf(token: string): Promise<PortalVerdict>;
  /** Ends one token of a tenant, or all of them where none is named, from the next request on. */
  revoke(tenant: string, id?: string): Promise<WriteOutcome>;
}

export interface PortalOptions {
  /** PEM, the first signs; the same list until they change. */
  readonly keys: () => readonly Secret[];
  readonly identity: () => IdentitySettings;
  readonly ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords'>;
  readonly clock: Pick<Clock, 'now'>;
}

export function createPortal({ keys, identity, ledger, clock }: PortalOptions): Portal {
  const tokens = new PortalTokens({ keys, identity, clock });
  const revocations = new Revocations(ledger, clock);
  return {
    isOn: () => keys().length > 0,
    mint: async (tenant, validMs) =>
      tokens.sign({ tenant, series: await revocations.seriesOf(tenant) }, validMs),
    verdictOf: async (token) => {
      const checked = await tokens.check(token);
      if (checked.kind !== 'good') return checked;
      return (await revocations.has(checked.claims)) ? { kind: 'ended' } : checked;
    },
    revoke: (tenant, id) =>
      id === undefined ? revocations.revokeAll(tenant) : revocations.revoke(tenant, id),
  };
}
