import type { Views } from '../../http/views.ts';
import { billingStateOf } from '../../enforcement/enforcement.ts';
import { newRecord } from '../../enforcement/states/tenant-record.ts';
import { ledgerFailure } from '../../ledger/failures.ts';

const REFUSED = ledgerFailure(
  'invalid',
  'hub: only the operator of a cluster does this: ask that one',
);
const refuse = async () => REFUSED;

/** What a hub neither does nor knows: its routes are refused before they ask (docs/fleet.md#the-api-of-a-hub). */
export const NOT_OF_A_HUB: Pick<
  Views,
  'held' | 'explanations' | 'enforcement' | 'budgets' | 'credits'
> = {
  held: {
    push: refuse,
    list: () => [],
    eventsOf: async function* none() {},
    pushedTenants: () => [],
    release: refuse,
    rename: refuse,
    discard: refuse,
  },
  explanations: { find: async () => ({ kind: 'gone', reason: REFUSED.message }) },
  enforcement: {
    isEnabled: () => false,
    receive: async () => ({ kind: 'refused' }),
    states: () => [],
    stateOf: (tenant) => billingStateOf(newRecord(tenant, 0)),
    setManual: refuse,
    clearManual: refuse,
    status: () => ({ suspendedClusters: [], pending: 0, problems: [] }),
  },
  budgets: { of: () => undefined },
  credits: {
    add: refuse,
    list: async function* none() {},
    used: () => undefined,
    counts: () => undefined,
  },
};
