import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { instant, objects, page, refused, text, texts } from './answers.ts';
import { counts } from './metrics.ts';
import {
  customerOf,
  covers,
  type Contract,
  type Customer,
  type Metric,
  type MetronomeState,
  type StoredEvent,
} from './state.ts';

const DAY_MS = 86_400_000;

/**
 * Returns usage. Bounds must be UTC midnights; a value is a JSON number, or null without events.
 */
export function listUsage(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  { query, at: now }: FakeRequest,
): FakeResponse {
  if (query.has('limit')) return refused(400, 'limit is not supported');
  const from = instant(input['starting_on']);
  const to = instant(input['ending_before']);
  if (
    from === undefined ||
    to === undefined ||
    from % DAY_MS !== 0 ||
    to % DAY_MS !== 0 ||
    to <= from
  ) {
    return refused(
      400,
      'starting_on and ending_before must be UTC midnights, at least a day apart',
    );
  }
  const size = text(input['window_size'])?.toUpperCase();
  if (size !== 'NONE' && size !== 'DAY') return refused(400, 'window_size is not supported');
  const customers = texts(input['customer_ids']);
  const metrics = objects(input['billable_metrics']).map(({ id }) => id);
  const step = size === 'DAY' ? DAY_MS : to - from;
  const rows: unknown[] = [];
  for (const customer of state.customers) {
    if (customers.length > 0 && !customers.includes(customer.id)) continue;
    for (const metric of state.metrics) {
      if (metrics.length > 0 && !metrics.includes(metric.id)) continue;
      for (let start = from; start < to; start += step) {
        rows.push({
          customer_id: customer.id,
          billable_metric_id: metric.id,
          billable_metric_name: metric.name,
          start_timestamp: new Date(start).toISOString(),
          end_timestamp: new Date(start + step).toISOString(),
          value: sum(state, customer, metric, { from: start, to: start + step, now }),
        });
      }
    }
  }
  return page(rows, query);
}

function sum(
  state: MetronomeState,
  customer: Customer,
  metric: Metric,
  { from, to, now }: { readonly from: number; readonly to: number; readonly now: number },
): number | null {
  const summedUntil = now - state.rules.sumsLagSeconds * 1_000;
  const matching = state.events.filter((event) => {
    const at = Date.parse(event.timestamp);
    const own = customerOf(state, event.customer_id) === customer;
    const isSummed = event.takenAt <= summedUntil;
    return own && isSummed && at >= from && at < to && counts(metric, event);
  });
  if (matching.length === 0) return null;
  const values = matching.map(({ properties }) => Number(properties[metric.aggregation_key ?? '']));
  return values.reduce((total, value) => total + value, 0);
}

/** One event on an invoice. An event that two contracts cover occurs twice. */
export interface InvoiceItem {
  readonly event: StoredEvent;
  readonly contract: Contract;
}

/**
 * Returns the events that would be invoiced, in the order of their arrival: once for each contract
 * that covers them.
 */
export function invoiceItems(state: MetronomeState): readonly InvoiceItem[] {
  return state.events.flatMap((event) => {
    const customer = customerOf(state, event.customer_id);
    const counted = state.metrics.some((metric) => counts(metric, event));
    if (customer === undefined || customer.archived_at !== undefined || !counted) return [];
    return state.contracts
      .filter(
        (contract) =>
          contract.customer_id === customer.id &&
          contract.archived_at === undefined &&
          covers(contract, Date.parse(event.timestamp)),
      )
      .map((contract) => ({ event, contract }));
  });
}
