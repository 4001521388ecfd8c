import type { CustomerAnswer } from '../destination.ts';
import { dataOf, type MetronomeClient } from './metronome-client.ts';

/** Which tenants a customer may be: its ingest aliases, among which others may have put their own. */
export async function tenantsOfMetronomeCustomer(
  client: MetronomeClient,
  customer: string,
  signal: AbortSignal,
): Promise<CustomerAnswer> {
  const answer = await client.get(`/v1/customers/${encodeURIComponent(customer)}`, signal);
  if (answer.kind === 'refused') return { kind: 'unknown' };
  if (answer.kind !== 'ok') return { kind: 'failed', reason: answer.reason };
  const aliases = dataOf(answer)?.['ingest_aliases'];
  const tenants = Array.isArray(aliases)
    ? (aliases as unknown[]).filter((alias) => typeof alias === 'string')
    : [];
  return tenants.length === 0 ? { kind: 'unknown' } : { kind: 'tenants', tenants, certain: false };
}
