import type { UsageEvent } from '../../model/event.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { DeliveryOutcome } from '../destination.ts';
import { type ApiAnswer, type ApiRefusal, failedStep } from '../json-api/answer.ts';
import { textOf } from '../json.ts';
import { dealLines } from '../lines.ts';
import type { StripeCustomers } from './customers.ts';
import { meterEventOf, reportRounding } from './meter-event.ts';
import {
  meterDisplayName,
  meterName,
  type StripeMeter,
  type StripeMeters,
  usableMeter,
} from './meters.ts';
import type { StripeSettings } from './settings.ts';
import type { StripeClient } from './stripe-client.ts';

const METER_EVENTS = '/v1/billing/meter_events';
/** The bound of simultaneous calls; each takes about a quarter of a second over the network. */
const MAX_CONCURRENT = 32;
const CALL_SECONDS = 0.25;
/** One `send` has the events of this many seconds. */
const BATCH_SECONDS = 5;

const DELIVERED: DeliveryOutcome = { kind: 'delivered' };
/** The codes of refusals and reports for a missing meter. */
export const NO_METER: ReadonlySet<string> = new Set(['no_meter', 'archived_meter']);
/** The codes of refusals and reports for a missing customer. */
export const NO_CUSTOMER: ReadonlySet<string> = new Set([
  'meter_event_customer_not_found',
  'meter_event_no_customer_defined',
]);
/** Until every part of Stripe knows a new meter. */
const NEW_METER_WAIT_MS = 5_000;
/** The largest clock error for which an event waits. */
const FUTURE_WAIT_MS = 60_000;

export interface StripeSenderOptions {
  readonly name: string;
  readonly settings: StripeSettings;
  readonly client: StripeClient;
  readonly meters: StripeMeters;
  readonly customers: StripeCustomers;
  /** The name of a metric, for people. */
  readonly metricName: (code: string) => string;
  readonly logger: Logger;
}

/** Returns how many events one `send` takes at a rate of events a second. */
export function batchEvents(eventsPerSecond: number): number {
  return Math.max(1, Math.min(1_000, Math.ceil(eventsPerSecond * BATCH_SECONDS)));
}

interface Addressed {
  readonly index: number;
  readonly event: UsageEvent;
  readonly meter: string;
}

/**
 * Sends events one by one, as version 1 of the API takes them. A line makes one call at a time for
 * the events of a customer and meter, in order, and several lines run in parallel. An error of one
 * event or customer delays no other line. An error of Stripe itself stops all lines.
 */
export class StripeSender {
  readonly #options: StripeSenderOptions;
  readonly #concurrency: number;

  constructor(options: StripeSenderOptions) {
    this.#options = options;
    const wanted = Math.max(1, options.client.eventsPerSecond * CALL_SECONDS);
    this.#concurrency = Math.ceil(Math.min(MAX_CONCURRENT, wanted));
  }

  /** `outcomes[i]` belongs to `events[i]`. */
  async send(
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryOutcome[]> {
    const outcomes = new Map<number, DeliveryOutcome>();
    let stopped: DeliveryOutcome | undefined;
    const { splitMetersBy } = this.#options.settings;
    const addressed = events.map((event, index): Addressed => {
      return { index, event, meter: meterName(event, splitMetersBy) };
    });
    const keyOf = ({ event, meter }: Addressed): string => `${event.tenant}\0${meter}`;
    const sendLine = async (line: readonly Addressed[]): Promise<void> => {
      const blocked = new Map<string, DeliveryOutcome>();
      for (const item of line) {
        const key = keyOf(item);
        const waiting = stopped ?? blocked.get(key);
        if (waiting !== undefined) {
          outcomes.set(item.index, waiting);
          continue;
        }
        const { outcome, stopsAll } = await this.#sendOne(item, signal);
        outcomes.set(item.index, outcome);
        if (stopsAll) stopped ??= outcome;
        else if (outcome.kind !== 'delivered' && outcome.kind !== 'rejected') {
          blocked.set(key, outcome);
        }
      }
    };
    await Promise.all(dealLines(addressed, keyOf, this.#concurrency).map(sendLine));
    return events.map((_, index) => outcomes.get(index) ?? { kind: 'retry', reason: 'not sent' });
  }

  async #sendOne({ event, meter: meterNamed }: Addressed, signal: AbortSignal): Promise<ChunkStep> {
    const { settings, meters, customers, metricName } = this.#options;
    const customer = customers.idOf(event.tenant);
    if (customer === undefined) {
      return stopLine({ kind: 'provision', reason: 'no customer in Stripe yet' });
    }
    const shown = meterDisplayName(metricName(event.metric), event, settings.splitMetersBy);
    for (let pass = 1; ; pass += 1) {
      const found = usableMeter(meterNamed, await meters.ensure(meterNamed, shown, signal));
      if (found.kind === 'rejected') return stopLine(found);
      if (found.kind !== 'meter') return stopAll(failedStep(found));
      const { meter } = found;
      const answer = await this.#post(event, meter, customer, signal);
      if (answer.kind === 'ok') return stopLine(DELIVERED);
      if (answer.kind !== 'refused') {
        const outcome = failedStep(answer);
        const isOwn = answer.kind === 'retry' && answer.cause === 'conflict';
        return isOwn ? stopLine(outcome) : stopAll(outcome);
      }
      if (isKeyConflict(answer) && pass === 1) continue;
      if (NO_METER.has(answer.code) || isNoMeter(answer)) {
        meters.doubt();
        if (pass === 1) continue;
        return stopLine({ kind: 'retry', reason: answer.reason, afterMs: NEW_METER_WAIT_MS });
      }
      if (NO_CUSTOMER.has(answer.code)) customers.forget(event.tenant);
      return stopLine(outcomeOf(answer, event));
    }
  }

  #post(
    event: UsageEvent,
    meter: StripeMeter,
    customer: string,
    signal: AbortSignal,
  ): Promise<ApiAnswer> {
    const { name, client, logger } = this.#options;
    reportRounding(name, event, logger);
    const timestamp = Date.parse(event.window_start) / 1000;
    const { payload, ...named } = meterEventOf(event, meter, customer, timestamp);
    return client.create(METER_EVENTS, { ...named, payload: { ...payload } }, signal, event.id);
  }
}

interface ChunkStep {
  readonly outcome: DeliveryOutcome;
  /** True if Stripe itself or the key has a problem. */
  readonly stopsAll: boolean;
}

function stopLine(outcome: DeliveryOutcome): ChunkStep {
  return { outcome, stopsAll: false };
}

function stopAll(outcome: DeliveryOutcome): ChunkStep {
  return { outcome, stopsAll: true };
}

/** Returns the outcome of a refused event (docs/how-to/destinations/stripe.md#what-errors-mean). */
function outcomeOf(refusal: ApiRefusal, event: UsageEvent): DeliveryOutcome {
  const { status, code, details, reason } = refusal;
  const stated = textOf(details, 'message') ?? '';
  // Version 1 has no code for this, so only the message shows it.
  const duplicate =
    status === 400 &&
    textOf(details, 'type') === 'invalid_request_error' &&
    stated.includes('already exists with identifier') &&
    stated.includes(event.id);
  if (duplicate || code === 'duplicate_meter_event') return DELIVERED;
  if (NO_CUSTOMER.has(code)) return { kind: 'provision', reason };
  if (code === 'timestamp_in_future') return { kind: 'retry', reason, afterMs: FUTURE_WAIT_MS };
  if (status === 400) return { kind: 'rejected', reason };
  return { kind: 'blocked', reason };
}

/**
 * Returns whether the event's idempotency key was used for another customer or meter. The
 * identifier still detects repeats.
 */
function isKeyConflict({ details }: ApiRefusal): boolean {
  return textOf(details, 'type') === 'idempotency_error';
}

function isNoMeter({ status, details }: ApiRefusal): boolean {
  return status === 400 && /no active meter/i.test(textOf(details, 'message') ?? '');
}
