import type { Contract } from './contract-plan.ts';

/** What is known of a tenant at Metronome since it was provisioned. */
export interface MetronomeTenant {
  readonly customerId: string;
  /** Undefined where no contracts are made: usage is then billed as whoever runs Metronome arranges it. */
  readonly contracts?: readonly Contract[];
}

export type MetronomeTenants = Map<string, MetronomeTenant>;

/** Whether usage of a moment would be on an invoice. */
export type Cover =
  | { readonly kind: 'covered'; readonly rateCardId: string | undefined }
  /** Before the first contract began. `from` in milliseconds since the epoch. */
  | { readonly kind: 'before'; readonly from: number }
  | { readonly kind: 'uncovered' };

export function coverAt({ contracts }: MetronomeTenant, at: number): Cover {
  if (contracts === undefined) return { kind: 'covered', rateCardId: undefined };
  const covering = contracts.find(({ from, to }) => from <= at && at < to);
  if (covering !== undefined) return { kind: 'covered', rateCardId: covering.rateCardId };
  const from = Math.min(...contracts.map((contract) => contract.from));
  return at < from && Number.isFinite(from) ? { kind: 'before', from } : { kind: 'uncovered' };
}
