import type { Tenant } from '../../model/tenant.ts';
import type { BoundariesOutcome } from '../destination.ts';
import { idsOf } from './customers.ts';
import { failedStep, type LagoClient } from './lago-client.ts';
import { findActive } from './subscriptions.ts';

/** The running period's beginning and end, which are midnights of the customer's time zone. */
export async function boundariesAtLago(
  client: LagoClient,
  tenant: Tenant,
  signal: AbortSignal,
): Promise<BoundariesOutcome> {
  const answer = await findActive(client, idsOf(tenant).subscription, signal);
  if (answer.kind === 'none') return { kind: 'boundaries', at: [] };
  if (answer.kind !== 'subscription') return failedStep(answer);
  const { periodStartedAt, periodEndsAt } = answer.subscription;
  const at = [periodStartedAt, periodEndsAt].filter((moment) => moment !== undefined);
  return { kind: 'boundaries', at };
}
