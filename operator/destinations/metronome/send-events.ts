import type { UsageEvent } from '../../model/event.ts';
import type { DeliveryOutcome } from '../destination.ts';
import type { ApiAnswer } from '../json-api/answer.ts';
import { type LineItem, sendInLines } from '../lines.ts';
import type { MetronomeMetric } from './billable-metrics.ts';
import { coverAt, type MetronomeTenants } from './contract-plan.ts';
import { ABSENT, VALUE_PROPERTY } from './metric-definition.ts';
import type { MetronomeClient } from './metronome-client.ts';

/** Metronome's own limit of events in a call. */
export const CALL_EVENTS = 100;
const CONCURRENT_CALLS = 4;
/** Events in one `send`: enough to keep all calls busy. */
export const SEND_EVENTS = CALL_EVENTS * CONCURRENT_CALLS;
/** Refusals of a call's content. Metronome does not name the event. */
const FOR_CONTENT = new Set([400, 413, 422]);
const DELIVERED: DeliveryOutcome = { kind: 'delivered' };

/** An event in Metronome's form. Every property is text, since numbers would lose digits. */
export interface MetronomeEvent {
  readonly transaction_id: string;
  readonly customer_id: string;
  readonly event_type: string;
  /** The window's start; the same at every attempt. */
  readonly timestamp: string;
  readonly properties: Readonly<Record<string, string>>;
}

/**
 * Sends events, several calls at a time. All events of a tenant go through one line of calls, so
 * that their order stays. A line stops at its first failure. A repeated call is harmless: Metronome
 * ignores known transaction ids.
 */
export class MetronomeSender {
  readonly #options;

  constructor(options: {
    readonly client: MetronomeClient;
    readonly tenants: MetronomeTenants;
    /** Undefined when Metronome has no such metric. */
    readonly metric: (code: string) => MetronomeMetric | undefined;
    /** Returns why events of a metric cannot be billed. */
    readonly unusable: (code: string) => string | undefined;
  }) {
    this.#options = options;
  }

  /** `outcomes[i]` belongs to `events[i]`. */
  send(events: readonly UsageEvent[], signal: AbortSignal): Promise<readonly DeliveryOutcome[]> {
    return sendInLines<MetronomeEvent>(events, {
      check: (event) => this.#check(event),
      keyOf: ({ customer_id }) => customer_id,
      lineCount: (count) => Math.min(CONCURRENT_CALLS, Math.ceil(count / CALL_EVENTS)),
      sendLine: (line, outcomes) => this.#sendLine(line, outcomes, signal),
    });
  }

  /** Returns the event to send, or the outcome of an event that Metronome takes and never bills. */
  #check(event: UsageEvent): DeliveryOutcome | MetronomeEvent {
    const { tenants, metric, unusable } = this.#options;
    const problem = unusable(event.metric);
    if (problem !== undefined) return { kind: 'rejected', reason: problem };
    const found = metric(event.metric);
    if (found === undefined) {
      const reason = `Metronome has no billable metric of this code: metric: "${event.metric}"`;
      return { kind: 'rejected', reason };
    }
    const tenant = tenants.get(event.tenant);
    if (tenant === undefined) return { kind: 'provision', reason: 'no customer in Metronome yet' };
    const cover = coverAt(tenant, Date.parse(event.window_start));
    if (cover.kind === 'uncovered') return { kind: 'provision', reason: 'no contract covers it' };
    if (cover.kind === 'covered') return metronomeEvent(event, tenant.customerId, found.required);
    const start = new Date(cover.from).toISOString();
    const reason = `before the contract began, ${start}, so Metronome would never bill it: window_start: "${event.window_start}"`;
    return { kind: 'rejected', reason };
  }

  async #sendLine(
    line: readonly LineItem<MetronomeEvent>[],
    outcomes: Map<number, DeliveryOutcome>,
    signal: AbortSignal,
  ): Promise<void> {
    for (let start = 0; start < line.length; start += CALL_EVENTS) {
      const chunk = line.slice(start, start + CALL_EVENTS);
      const body = chunk.map(({ payload }) => payload);
      const outcome = outcomeOf(await this.#options.client.post('/v1/ingest', body, signal));
      for (const { index } of chunk) outcomes.set(index, outcome);
      if (outcome.kind !== 'retry' && outcome.kind !== 'blocked') continue;
      for (const { index } of line.slice(start + CALL_EVENTS)) outcomes.set(index, outcome);
      return;
    }
  }
}

function outcomeOf(answer: ApiAnswer): DeliveryOutcome {
  if (answer.kind === 'ok') return DELIVERED;
  if (answer.kind !== 'refused') return answer;
  return { kind: FOR_CONTENT.has(answer.status) ? 'split' : 'blocked', reason: answer.reason };
}

/**
 * Encodes a usage event. Every dimension becomes a property, and so does every property that a
 * metric requires: without one of them the event would count for nothing
 * (docs/how-to/destinations/metronome.md#events). The quantity comes last: no dimension can replace
 * it.
 */
export function metronomeEvent(
  event: UsageEvent,
  customerId: string,
  required: readonly string[],
): MetronomeEvent {
  const { region, project, sku, resource_id, source, unit, window_start, window_end } = event;
  const named = {
    unit,
    window_start,
    window_end,
    schema_version: event.schema_version,
    region,
    project,
    sku,
    resource_id,
    source,
  };
  const given = Object.entries({ ...event.dimensions, ...named }).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== '',
  );
  return {
    transaction_id: event.id,
    customer_id: customerId,
    event_type: event.metric,
    timestamp: window_start,
    properties: {
      ...Object.fromEntries(required.map((key) => [key, ABSENT])),
      ...Object.fromEntries(given),
      [VALUE_PROPERTY]: event.quantity,
    },
  };
}
