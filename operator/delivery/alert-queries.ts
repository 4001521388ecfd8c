import type {
  QueryCurrentAlerts,
  CustomerAnswer,
  Destination,
  PublicKeysOutcome,
  CurrentAlerts,
} from '../destinations/destination.ts';
import type { DestinationType } from '../model/destination-type.ts';

/**
 * Returns the tenants behind a customer of a billing system, from the first destination that knows.
 * Fails only if a destination failed and none knew.
 */
export async function queryTenants(
  destinations: Iterable<Destination>,
  system: DestinationType,
  customer: string,
  signal: AbortSignal,
): Promise<CustomerAnswer> {
  let answer: CustomerAnswer = { kind: 'unknown' };
  for (const destination of destinations) {
    const next: CustomerAnswer =
      (await destination.alerts?.tenantsOf?.(system, customer, signal)) ?? answer;
    if (next.kind === 'tenants') return next;
    if (next.kind === 'failed') answer = next;
  }
  return answer;
}

/** Returns the public keys of a billing system's signatures, from all destinations of its type. */
export async function queryPublicKeys(
  destinations: Iterable<Destination>,
  system: DestinationType,
  signal: AbortSignal,
): Promise<PublicKeysOutcome> {
  const keys: string[] = [];
  let reason = `no destination of this type: "${system}"`;
  for (const destination of destinations) {
    if (destination.type !== system) continue;
    const answer = await destination.alerts?.publicKey?.(signal);
    if (answer?.kind === 'key') keys.push(answer.key);
    if (answer?.kind === 'failed') reason = answer.reason;
  }
  return keys.length > 0 ? { kind: 'keys', keys } : { kind: 'failed', reason };
}

/** Returns the current alerts of customers, from every destination of the given types. */
export async function queryStatus(
  destinations: Iterable<Destination>,
  ...[requested, signal]: Parameters<QueryCurrentAlerts>
): Promise<readonly CurrentAlerts[]> {
  const stated: CurrentAlerts[] = [];
  for (const destination of destinations) {
    const subjects = requested.get(destination.type);
    if (subjects === undefined) continue;
    const outcome = await destination.alerts?.current(subjects, signal);
    if (outcome !== undefined) stated.push({ destination: destination.name, outcome });
  }
  return stated;
}
