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
/** Calls under way at most; each takes a quarter of a second over the network or so. */
const MAX_CONCURRENT = 32;
const CALL_SECONDS = 0.25;
/** Seconds' worth of events in one `send`. */
const BATCH_SECONDS = 5;

const DELIVERED: DeliveryOutcome = { kind: 'delivered' };
/** What a refusal, or a report of a later one, says where a meter is not there. */
export const NO_METER: ReadonlySet<string> = new Set(['no_meter', 'archived_meter']);
/** The same of a customer. */
export const NO_CUSTOMER: ReadonlySet<string> = new Set([
  'meter_event_customer_not_found',
  'meter_event_no_customer_defined',
]);
/** Until a meter that is there is known everywhere at Stripe. */
const NEW_METER_WAIT_MS = 5_000;
/** A clock that is wrong by so much at most is waited for. */
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

/** How many events one `send` takes, by how many may go out in a second. */
export function batchEvents(eventsPerSecond: number): number {
  return Math.max(1, Math.min(1_000, Math.ceil(eventsPerSecond * BATCH_SECONDS)));
}

interface Addressed {
  readonly index: number;
  readonly event: UsageEvent;
  readonly meter: string;
}

/**
 * Sends events one by one, as Stripe takes them: one call at a time for a customer and meter, whose
 * events stay in order, and several such lines side by side. What is wrong with one event or customer
 * holds up nobody else; what is wrong with Stripe stops all lines.
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

  async #sendOne({ event, meter: meterNamed }: Addressed, signal: AbortSignal): Promise<Step> {
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

interface Step {
  readonly outcome: DeliveryOutcome;
  /** Stripe itself is in trouble, or the key. */
  readonly stopsAll: boolean;
}

function stopLine(outcome: DeliveryOutcome): Step {
  return { outcome, stopsAll: false };
}

function stopAll(outcome: DeliveryOutcome): Step {
  return { outcome, stopsAll: true };
}

/** What a refusal means for an event (docs/how-to/destinations/stripe.md#what-errors-mean). */
function outcomeOf(refusal: ApiRefusal, event: UsageEvent): DeliveryOutcome {
  const { status, code, details, reason } = refusal;
  const stated = textOf(details, 'message') ?? '';
  // Version 1 has no code for it, so that only its words tell.
  const duplicate =
    status === 400 &&
    textOf(details, 'type') === 'invalid_request_error' &&
    stated.includes('already exists with identifier') &&
    stated.includes(event.id);
  if (duplicate || code === 'duplicate_meter_event') return DELIVERED;
  if (NO_CUSTOMER.has(code)) return { kind: 'provision', reason };
  if (code === 'timestamp_in_future') return { kind: 'retry', reason, afterMs: FUTURE_WAIT_MS };
  if (status === 400) return { kind: 'rejected', reason };
  return { kind: 'hold', reason };
}

/** The key of an event was used for another customer or meter; the identifier still tells repeats apart. */
function isKeyConflict({ details }: ApiRefusal): boolean {
  return textOf(details, 'type') === 'idempotency_error';
}

function isNoMeter({ status, details }: ApiRefusal): boolean {
  return status === 400 && /no active meter/i.test(textOf(details, 'message') ?? '');
}
