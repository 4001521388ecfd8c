import type { UsageEvent } from '../../model/event.ts';
import { isRecord } from '../../model/is-record.ts';
import type { DeliveryOutcome } from '../destination.ts';
import type { ApiProblem, ApiRefusal } from '../json-api/answer.ts';
import { type LineItem, sendInLines } from '../lines.ts';
import type { LagoMetric } from './billable-metrics.ts';
import { draftPeriods } from './invoices.ts';
import { failedStep, type LagoClient } from './lago-client.ts';
import type { ActiveSubscriptions } from './subscriptions.ts';
import type { TimeRange } from '../../model/window.ts';

/** Lago's own limit of events in a call; people who run Lago can change it. */
export const CALL_EVENTS = 100;
const CONCURRENT_CALLS = 4;
/** Events in one `send`: enough to keep all calls busy. */
export const SEND_EVENTS = CALL_EVENTS * CONCURRENT_CALLS;
/**
 * Lago checks the format of all events first and looks for duplicates afterwards. That takes two
 * passes, and a third for changes in between.
 */
const MAX_PASSES = 3;
const DELIVERED: DeliveryOutcome = { kind: 'delivered' };
/** Refusals of the complete call that do not name an event. */
const BLIND_REFUSALS = new Set([400, 413, 422]);

/** The time ranges with drafts by the subscription's id, or why they are unknown. */
type Drafts = ReadonlyMap<string, readonly TimeRange[] | ApiProblem>;

/**
 * Sends events, several calls at a time. All events of a tenant go through one line of calls, so
 * that their order stays. A line stops at its first failure.
 */
export class LagoSender {
  readonly #options;
  /** Shrinks when the server takes fewer. */
  #callEvents = CALL_EVENTS;

  constructor(options: {
    readonly client: LagoClient;
    readonly subscriptions: ActiveSubscriptions;
    /** Returns the subscription of a tenant's usage. */
    readonly subscriptionOf: (tenant: string) => string;
    /** Undefined when Lago has no such metric. */
    readonly metric: (code: string) => LagoMetric | undefined;
    /** Returns why events of a metric cannot be billed. */
    readonly unusable: (code: string) => string | undefined;
  }) {
    this.#options = options;
  }

  /** `outcomes[i]` belongs to `events[i]`. */
  async send(
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryOutcome[]> {
    const stale = await this.#options.subscriptions.refresh(signal);
    if (stale?.kind === 'blocked') return events.map(() => stale);
    const drafts = await this.#draftsFor(events, signal);
    return sendInLines<LagoEvent>(events, {
      check: (event) => this.#check(event, drafts),
      keyOf: ({ external_subscription_id }) => external_subscription_id,
      lineCount: (count) => Math.min(CONCURRENT_CALLS, Math.ceil(count / this.#callEvents)),
      sendLine: (line, outcomes) => this.#sendLine(line, outcomes, signal),
    });
  }

  /**
   * Returns the drafts of subscriptions whose start is later than an event, by subscription id.
   * Mostly there are none.
   */
  async #draftsFor(events: readonly UsageEvent[], signal: AbortSignal): Promise<Drafts> {
    const { client, subscriptions, subscriptionOf } = this.#options;
    const drafts = new Map<string, readonly TimeRange[] | ApiProblem>();
    for (const { tenant, window_start } of events) {
      const subscription = subscriptions.find(subscriptionOf(tenant));
      if (subscription === undefined || drafts.has(subscription.externalId)) continue;
      if (Date.parse(window_start) >= subscription.startedAt) continue;
      const { customer, externalId } = subscription;
      const periods = await draftPeriods(client, { customer, subscription: externalId }, signal);
      drafts.set(externalId, periods);
    }
    return drafts;
  }

  /** Returns the event to send, or the outcome of an event that Lago would take and never bill. */
  #check(event: UsageEvent, drafts: Drafts): DeliveryOutcome | LagoEvent {
    const { subscriptions, subscriptionOf, metric, unusable } = this.#options;
    const problem = unusable(event.metric);
    if (problem !== undefined) return { kind: 'rejected', reason: problem };
    const field = metric(event.metric)?.field;
    if (field === undefined) {
      const reason = `Lago has no billable metric of this code: metric: "${event.metric}"`;
      return { kind: 'rejected', reason };
    }
    const id = subscriptionOf(event.tenant);
    const subscription = subscriptions.find(id);
    if (subscription === undefined) return { kind: 'provision', reason: 'no active subscription' };
    const payload = lagoEvent(event, id, field);
    const at = payload.timestamp * 1000;
    if (at >= subscription.startedAt) return payload;
    const periods = drafts.get(id) ?? [];
    if ('reason' in periods) return failedStep(periods);
    if (periods.some(({ from, to }) => from <= at && at < to)) return payload;
    const start = new Date(subscription.startedAt).toISOString();
    const what = `before the subscription began, ${start}, so Lago would never bill it`;
    const fix = 'bill it by a one-off invoice there, and discard it here';
    return { kind: 'rejected', reason: `${what}: window_start: "${event.window_start}"; ${fix}` };
  }

  async #sendLine(
    line: readonly LineItem<LagoEvent>[],
    outcomes: Map<number, DeliveryOutcome>,
    signal: AbortSignal,
  ): Promise<void> {
    for (let start = 0; start < line.length; ) {
      const chunk = line.slice(start, start + this.#callEvents);
      const payloads = chunk.map(({ payload }) => payload);
      const report = await sendChunk(this.#options.client, payloads, signal);
      if (report.tooMany && chunk.length > 1) {
        this.#callEvents = Math.max(1, Math.floor(chunk.length / 2));
        continue;
      }
      for (const [position, { index }] of chunk.entries()) {
        const outcome = report.outcomes[position];
        if (outcome !== undefined) outcomes.set(index, outcome);
      }
      const stopped = report.outcomes.find(({ kind }) => kind === 'retry' || kind === 'blocked');
      if (stopped !== undefined) {
        for (const { index } of line.slice(start + chunk.length)) outcomes.set(index, stopped);
        return;
      }
      start += chunk.length;
    }
  }
}

interface ChunkReport {
  /** `outcomes[i]` belongs to `events[i]`. */
  readonly outcomes: readonly DeliveryOutcome[];
  /** True if the call had more events than the server takes. */
  readonly tooMany: boolean;
}

/**
 * Sends up to one call's worth of events. Lago refuses a complete call for one bad or repeated
 * event, and lists the faults by index. Duplicates count as delivered, faulty events as rejected,
 * and the others are sent again.
 */
async function sendChunk(
  client: LagoClient,
  events: readonly LagoEvent[],
  signal: AbortSignal,
): Promise<ChunkReport> {
  const outcomes = new Map<number, DeliveryOutcome>();
  let open = events.map((_, index) => index);
  const report = (remainder: DeliveryOutcome, tooMany = false): ChunkReport => ({
    outcomes: events.map((_, index) => outcomes.get(index) ?? remainder),
    tooMany,
  });

  for (let pass = 1; pass <= MAX_PASSES; pass += 1) {
    const batch = open.flatMap((index) => events[index] ?? []);
    const answer = await client.call('POST', '/events/batch', { events: batch }, signal);
    if (answer.kind === 'ok') {
      if (Array.isArray(answer.body['events'])) return report(DELIVERED);
      return report({ kind: 'blocked', reason: 'the answer has no events: check the URL' });
    }
    if (answer.kind !== 'refused') return report(answer);
    if (isTooMany(answer)) return report({ kind: 'split', reason: answer.reason }, true);
    const faults = faultsByIndex(answer, open.length);
    if (faults.size === 0) {
      const kind = BLIND_REFUSALS.has(answer.status) ? 'split' : 'blocked';
      return report({ kind, reason: answer.reason });
    }
    for (const [position, outcome] of faults) {
      const index = open[position];
      if (index !== undefined) outcomes.set(index, outcome);
    }
    open = open.filter((index) => !outcomes.has(index));
    if (open.length === 0) return report(DELIVERED);
  }
  return report({ kind: 'retry', reason: 'Lago keeps refusing parts of the batch' });
}

function isTooMany({ details }: ApiRefusal): boolean {
  const stated = details['events'];
  return Array.isArray(stated) && stated.includes('too_many_events');
}

/** Returns the outcomes of single events in a refusal, by their position in the call. */
function faultsByIndex(refusal: ApiRefusal, count: number): Map<number, DeliveryOutcome> {
  const faults = new Map<number, DeliveryOutcome>();
  if (refusal.status !== 422) return faults;
  for (const [key, fault] of Object.entries(refusal.details)) {
    if (!/^\d+$/.test(key) || Number(key) >= count) continue;
    faults.set(Number(key), outcomeOfFault(fault));
  }
  return faults;
}

/** A duplicate has no other fault than its taken transaction id. */
function outcomeOfFault(fault: unknown): DeliveryOutcome {
  if (isRecord(fault)) {
    const fields = Object.keys(fault);
    const stated = fault['transaction_id'];
    const taken = Array.isArray(stated) && stated.includes('value_already_exist');
    if (taken && fields.length === 1) return DELIVERED;
  }
  const text = typeof fault === 'string' ? fault : JSON.stringify(fault);
  return { kind: 'rejected', reason: `lago-style API error 422: ${text}`.slice(0, 300) };
}

/** An event in Lago's form. Every property is text, since numbers would lose digits. */
export interface LagoEvent {
  readonly transaction_id: string;
  readonly external_subscription_id: string;
  readonly code: string;
  /** The window's start in full seconds since the epoch; the same at every attempt. */
  readonly timestamp: number;
  readonly properties: Readonly<Record<string, string>>;
}

/**
 * Encodes a usage event. Every dimension becomes a property, so that charges may price by any of
 * them. The quantity comes last, under the property that Lago sums: no dimension can replace it.
 */
export function lagoEvent(event: UsageEvent, subscription: string, field: string): LagoEvent {
  const { region, project, sku, resource_id } = event;
  const named = Object.entries({ region, project, sku, resource_id }).flatMap(([key, value]) =>
    value === undefined ? [] : [[key, value] as const],
  );
  const informational = Object.entries(event.properties ?? {}).map(
    ([key, value]) => [key, String(value)] as const,
  );
  return {
    transaction_id: event.id,
    external_subscription_id: subscription,
    code: event.metric,
    timestamp: Date.parse(event.window_start) / 1000,
    properties: {
      ...Object.fromEntries(informational),
      ...event.dimensions,
      ...Object.fromEntries(named),
      [field]: event.quantity,
    },
  };
}
