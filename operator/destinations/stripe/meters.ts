import { createHash } from 'node:crypto';
import type { UsageEvent } from '../../model/event.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, textOf } from '../json.ts';
import type { StripeClient } from './stripe-client.ts';

const METERS = '/v1/billing/meters';
/** Stripe's bound of a meter's event name. */
const MAX_NAME = 100;
const HASH_DIGITS = 8;
const MAX_DISPLAY_NAME = 250;
/** Separates a metric code and the values that split its meter. */
const SEPARATOR = '__';

/** A meter as Stripe records it. */
export interface StripeMeter {
  readonly id: string;
  readonly eventName: string;
  readonly active: boolean;
  /** The keys of an event's payload with the customer and the value. */
  readonly customerKey: string;
  readonly valueKey: string;
  /** Why its settings make it unable to count usage. */
  readonly problem: string | undefined;
}

export type MeterOutcome = { readonly kind: 'meter'; readonly meter: StripeMeter } | ApiProblem;

/** A usable meter, the outcome of all events for it, or the failure to read it. */
export type UsableMeter =
  | Extract<MeterOutcome, { readonly kind: 'meter' }>
  | { readonly kind: 'rejected'; readonly reason: string }
  | Exclude<ApiProblem, { readonly kind: 'refused' }>;

export function usableMeter(eventName: string, ensured: MeterOutcome): UsableMeter {
  if (ensured.kind === 'refused') {
    const reason = `meter "${eventName}" was not created: ${ensured.reason}`;
    return { kind: 'rejected', reason };
  }
  if (ensured.kind === 'meter' && ensured.meter.problem !== undefined) {
    return { kind: 'rejected', reason: ensured.meter.problem };
  }
  return ensured;
}

/** The meters of the account, by event name. */
export class StripeMeters {
  readonly #client: StripeClient;
  readonly #logger: Logger;
  #byName = new Map<string, StripeMeter>();
  #isDoubted = false;
  readonly #underWay = new Map<string, Promise<MeterOutcome>>();

  constructor(client: StripeClient, logger: Logger) {
    this.#client = client;
    this.#logger = logger;
  }

  async load(signal: AbortSignal): Promise<ApiProblem | undefined> {
    const list = await this.#client.list(METERS, {}, signal);
    if (list.kind !== 'list') return list;
    const found = new Map<string, StripeMeter>();
    for (const meter of list.items.map(readMeter)) {
      // It was archived to make room for a meter that can count usage.
      if (!meter.active && meter.problem !== undefined) continue;
      if (meter.active || !found.has(meter.eventName)) found.set(meter.eventName, meter);
    }
    this.#byName = found;
    this.#isDoubted = false;
    return undefined;
  }

  find(eventName: string): StripeMeter | undefined {
    return this.#byName.get(eventName);
  }

  all(): readonly StripeMeter[] {
    return [...this.#byName.values()];
  }

  /** Finds the meter, reactivates it, or creates it. */
  async ensure(eventName: string, displayName: string, signal: AbortSignal): Promise<MeterOutcome> {
    const known = this.#byName.get(eventName);
    if (known?.active === true && !this.#isDoubted) return { kind: 'meter', meter: known };
    // Events that need the same new meter wait for one creation.
    const waiting = this.#underWay.get(eventName);
    if (waiting !== undefined) return waiting;
    const work = this.#findOrMake(eventName, displayName, signal).finally(() =>
      this.#underWay.delete(eventName),
    );
    this.#underWay.set(eventName, work);
    return work;
  }

  /** Makes the meters uncertain: Stripe reported that one is missing or archived. */
  doubt(): void {
    this.#isDoubted = true;
  }

  async #findOrMake(
    eventName: string,
    displayName: string,
    signal: AbortSignal,
  ): Promise<MeterOutcome> {
    if (this.#isDoubted) {
      const failed = await this.load(signal);
      if (failed !== undefined) return failed;
    }
    const known = this.#byName.get(eventName);
    if (known === undefined) return this.#create(eventName, displayName, signal);
    return known.active ? { kind: 'meter', meter: known } : this.#reactivate(known, signal);
  }

  async #reactivate(meter: StripeMeter, signal: AbortSignal): Promise<MeterOutcome> {
    const answer = await this.#client.update(`${METERS}/${meter.id}/reactivate`, {}, signal);
    if (answer.kind !== 'ok') return answer;
    this.#logger.warn(`[bootstrap] meter "${meter.eventName}" was archived, reactivated it`);
    return this.#record(readMeter(answer.body));
  }

  async #create(
    eventName: string,
    displayName: string,
    signal: AbortSignal,
  ): Promise<MeterOutcome> {
    const params = {
      display_name: displayName,
      event_name: eventName,
      default_aggregation: { formula: 'sum' },
      customer_mapping: { type: 'by_id', event_payload_key: 'stripe_customer_id' },
      value_settings: { event_payload_key: 'value' },
    };
    const answer = await this.#client.create(METERS, params, signal);
    if (answer.kind === 'ok') {
      this.#logger.info(`[bootstrap] created meter "${eventName}"`);
      return this.#record(readMeter(answer.body));
    }
    if (answer.kind !== 'refused' || answer.status !== 400) return answer;
    // Somebody else created it in the meantime.
    const failed = await this.load(signal);
    const existing = this.#byName.get(eventName);
    if (failed !== undefined || existing?.active !== true) return failed ?? answer;
    return { kind: 'meter', meter: existing };
  }

  #record(meter: StripeMeter): MeterOutcome {
    this.#byName.set(meter.eventName, meter);
    return { kind: 'meter', meter };
  }
}

function readMeter(object: JsonObject): StripeMeter {
  const mapping = objectOf(object, 'customer_mapping');
  const settings = objectOf(object, 'value_settings');
  const aggregation = objectOf(object, 'default_aggregation');
  const formula = textOf(aggregation, 'formula') ?? 'sum';
  const window = textOf(object, 'event_time_window');
  const eventName = textOf(object, 'event_name') ?? '';
  const fix = 'archive it, and meterfeed makes another';
  const problem =
    formula !== 'sum'
      ? `meter "${eventName}" does not sum: default_aggregation: "${formula}"; ${fix}`
      : window !== undefined
        ? `meter "${eventName}" counts one event a window: event_time_window: "${window}"; ${fix}`
        : undefined;
  return {
    id: textOf(object, 'id') ?? '',
    eventName,
    active: object['status'] !== 'inactive',
    customerKey: textOf(mapping, 'event_payload_key') ?? 'stripe_customer_id',
    valueKey: textOf(settings, 'event_payload_key') ?? 'value',
    problem,
  };
}

/**
 * Returns the meter of an event: the metric's own, or the one of its values of the splitting fields
 * (docs/how-to/destinations/stripe.md#prices-by-sku-and-capacity-type). A name that is too long
 * ends in a hash of the complete name, so that it is always the same.
 */
export function meterName(event: UsageEvent, splitBy: readonly string[]): string {
  return joined(event.metric, splitValues(event, splitBy));
}

/** Returns the meter of usage that has exactly these values. */
export function meterNameOf(
  metric: string,
  values: Readonly<Record<string, string>>,
  splitBy: readonly string[],
): string {
  const own = splitBy.flatMap((field) => values[field] ?? []);
  return joined(metric, own);
}

function joined(metric: string, values: readonly string[]): string {
  const name = [metric, ...values.map(normalized)].join(SEPARATOR);
  if (name.length <= MAX_NAME) return name;
  return `${name.slice(0, MAX_NAME - HASH_DIGITS - 1)}_${hash(name)}`;
}

/** Returns the values in a meter's name; undefined where the name may be cut off. */
export function splitSegments(name: string, metric: string): readonly string[] | undefined {
  if (name === metric) return [];
  return name.length >= MAX_NAME
    ? undefined
    : name.slice(metric.length + SEPARATOR.length).split(SEPARATOR);
}

/** Returns the name on Stripe's dashboard: `GPU hours (H100-80GB)`. */
export function meterDisplayName(
  metricName: string,
  event: UsageEvent,
  splitBy: readonly string[],
): string {
  const values = splitValues(event, splitBy);
  const name = values.length === 0 ? metricName : `${metricName} (${values.join(', ')})`;
  return name.slice(0, MAX_DISPLAY_NAME);
}

/** Returns whether a meter counts a metric, alone or with other meters. */
export function isMeterOf(name: string, metric: string): boolean {
  return name === metric || name.startsWith(metric + SEPARATOR);
}

function splitValues(event: UsageEvent, splitBy: readonly string[]): readonly string[] {
  const { region, project, sku, resource_id } = event;
  const fields: Readonly<Record<string, string | undefined>> = {
    ...event.dimensions,
    region,
    project,
    sku,
    resource_id,
  };
  return splitBy.flatMap((field) => {
    const value = fields[field];
    return value === undefined || value === '' ? [] : [value];
  });
}

/** Returns lower case text with an underscore for everything but letters and digits. */
export function normalized(value: string): string {
  const text = value
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '');
  return text === '' ? hash(value) : text;
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, HASH_DIGITS);
}
