import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { invalid, isObject, notFound, ok, page, text } from './answers.ts';
import { billAtIngest } from './in-advance.ts';
import { billThreshold } from './progressive.ts';
import type { LagoState, StoredEvent } from './state.ts';

/** `postgres` refuses a batch with a duplicate; with `clickhouse` the last duplicate wins. */
export type EventStore = 'postgres' | 'clickhouse';

export interface EventRules {
  readonly store: EventStore;
  /** LAGO_EVENTS_BATCH_MAX_LENGTH. */
  readonly batchMax: number;
}

const NUMERIC = /^\d+(\.\d+)?$/;

export function createBatch(
  state: LagoState,
  input: unknown,
  at: number,
  { store, batchMax }: EventRules,
): FakeResponse {
  if (!Array.isArray(input) || input.length === 0) return invalid({ events: ['no_events'] });
  if (input.length > batchMax) return invalid({ events: ['too_many_events'] });
  const items = (input as unknown[]).map((item) => (isObject(item) ? item : {}));

  const malformed = numbered(items.map(formatProblem));
  if (malformed !== undefined) return invalid(malformed);

  if (store === 'postgres') {
    const inBatch = new Set<string>();
    const repeated = items.map((item) => {
      const transaction = String(item['transaction_id']);
      const key = keyOf(store, toEvent(item, at, ''));
      const repeats = state.events.has(key) || inBatch.has(transaction);
      inBatch.add(transaction);
      return repeats ? { transaction_id: ['value_already_exist'] } : undefined;
    });
    const duplicates = numbered(repeated);
    if (duplicates !== undefined) return invalid(duplicates);
  }
  const events = items.map((item) => toEvent(item, at, state.nextId()));
  for (const event of events) takeEvent(state, event, store);
  return ok({ events: events.map(show) });
}

export function createEvent(
  state: LagoState,
  input: Readonly<Record<string, unknown>>,
  at: number,
  { store }: EventRules,
): FakeResponse {
  const problem = formatProblem(input);
  if (problem !== undefined) return invalid(problem);
  const event = toEvent(input, at, state.nextId());
  if (store === 'postgres' && state.events.has(keyOf(store, event))) {
    return invalid({ transaction_id: ['value_already_exist'] });
  }
  takeEvent(state, event, store);
  return ok({ event: show(event) });
}

export function listEvents(state: LagoState, { query }: FakeRequest): FakeResponse {
  const subscription = query.get('external_subscription_id');
  const code = query.get('code');
  const from = Date.parse(query.get('timestamp_from') ?? '') || 0;
  const to = Date.parse(query.get('timestamp_to') ?? '') || Number.POSITIVE_INFINITY;
  const found = [...state.repeats.toReversed(), ...state.events.values()].filter(
    (event) =>
      (subscription === null || event.external_subscription_id === subscription) &&
      (code === null || event.code === code) &&
      event.at >= from &&
      event.at <= to,
  );
  return page('events', found.map(show), query);
}

export function showEvent(state: LagoState, transactionId: string): FakeResponse {
  const event = [...state.events.values()].find(
    ({ transaction_id }) => transaction_id === transactionId,
  );
  return event === undefined ? notFound('event') : ok({ event: show(event) });
}

/** Stores an event. With ClickHouse it goes through a queue, and is stored after the answer. */
function takeEvent(state: LagoState, event: StoredEvent, store: EventStore): void {
  const { ingestMs } = state.rules;
  if (store === 'postgres' || ingestMs === 0) storeEvent(state, event, store);
  else state.ingesting.push({ dueAt: Date.parse(event.created_at) + ingestMs, event });
}

/** Stores the events that the queue releases by a moment. */
export function ingest(state: LagoState, until: number): void {
  const due = state.ingesting.filter(({ dueAt }) => dueAt <= until);
  if (due.length === 0) return;
  state.ingesting = state.ingesting.filter(({ dueAt }) => dueAt > until);
  for (const { event } of due) storeEvent(state, event, 'clickhouse');
}

/** Stores an event. Where repeats are accepted, the last one replaces the first in its place. */
function storeEvent(state: LagoState, event: StoredEvent, store: EventStore): void {
  const key = keyOf(store, event);
  const first = state.events.get(key);
  const { lago_id, created_at } = first ?? event;
  state.events.set(key, { ...event, lago_id, created_at });
  if (first !== undefined) {
    state.repeats.push(event);
    return;
  }
  state.unvalidated.push(event);
  billAtIngest(state, event);
  billThreshold(state, event);
}

/** Returns the details of a refusal, keyed by the event's index as text. */
function numbered(
  problems: readonly (Readonly<Record<string, unknown>> | undefined)[],
): Record<string, unknown> | undefined {
  const found = problems.flatMap((problem, index) =>
    problem === undefined ? [] : [[String(index), problem] as const],
  );
  return found.length === 0 ? undefined : Object.fromEntries(found);
}

function formatProblem(item: Readonly<Record<string, unknown>>) {
  const problems: Record<string, string[]> = {};
  for (const field of ['transaction_id', 'external_subscription_id', 'code']) {
    if (text(item[field]) === undefined) problems[field] = ['value_is_mandatory'];
  }
  if (item['timestamp'] !== undefined && readSeconds(item['timestamp']) === undefined) {
    problems['timestamp'] = ['invalid_format'];
  }
  return Object.keys(problems).length === 0 ? undefined : problems;
}

/** Reads seconds since the epoch, as a number or numeric text; ISO text is refused. */
function readSeconds(value: unknown): number | undefined {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  return typeof value === 'string' && NUMERIC.test(value) ? Number(value) : undefined;
}

function toEvent(item: Readonly<Record<string, unknown>>, at: number, id: string): StoredEvent {
  const seconds = readSeconds(item['timestamp']);
  return {
    lago_id: id,
    transaction_id: String(item['transaction_id']),
    external_subscription_id: String(item['external_subscription_id']),
    code: String(item['code']),
    at: seconds === undefined ? at : Math.round(seconds * 1000),
    properties: isObject(item['properties']) ? item['properties'] : {},
    created_at: new Date(at).toISOString(),
  };
}

function keyOf(store: EventStore, event: StoredEvent): string {
  const key = `${event.external_subscription_id}\0${event.transaction_id}`;
  return store === 'postgres' ? key : `${event.code}\0${key}\0${event.at}`;
}

function show(event: StoredEvent) {
  return {
    lago_id: event.lago_id,
    transaction_id: event.transaction_id,
    lago_customer_id: null,
    code: event.code,
    timestamp: new Date(event.at).toISOString(),
    precise_total_amount_cents: null,
    properties: event.properties,
    lago_subscription_id: null,
    external_subscription_id: event.external_subscription_id,
    created_at: event.created_at,
  };
}
