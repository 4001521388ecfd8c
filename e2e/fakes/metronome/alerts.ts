import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { page, refused, text, texts } from './answers.ts';
import type { MetronomeState } from './state.ts';

/** Returns the alerts of a customer, the enabled ones by default. */
export function listCustomerAlerts(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  { query }: FakeRequest,
): FakeResponse {
  const customer = text(input['customer_id']);
  if (customer === undefined) return refused(400, 'customer_id is required');
  if (!state.customers.some(({ id }) => id === customer)) return refused(404, 'Customer not found');
  if (query.has('limit')) return refused(400, 'limit is not a parameter of this list');
  const requested = texts(input['alert_statuses']);
  const statuses = requested.length === 0 ? ['ENABLED'] : requested;
  const found = state.alerts.filter(
    (one) => one.customer_id === customer && statuses.includes(one.alert.status.toUpperCase()),
  );
  return page(
    found.map(({ alert, customer_status }) => ({ alert, customer_status, triggered_by: null })),
    query,
  );
}
