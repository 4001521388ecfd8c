import type { BillingState } from '../settings/settings.ts';
import type { DestinationType } from '../model/destination-type.ts';
import { isRecord } from '../model/is-record.ts';
import { jsonShape } from '../model/json-shape.ts';
import type { JsonObject } from './json.ts';

/** What a billing system says of one of its customers, in our terms. */
export interface Alert {
  readonly provider: DestinationType;
  /** The billing system's id of this message; it sends the same id again when it is not sure of our answer. */
  readonly id: string;
  /** The billing system's own name of the event type, as ENFORCEMENT_RULES names it. */
  readonly type: string;
  /** When it happened over there, milliseconds since the epoch; absent where the message does not say. */
  readonly at?: number;
  readonly customer: AlertCustomer;
  /**
   * What the alert is about, such as `subscription/sub_1` or `alert/<id>`: a later alert about the same
   * subject replaces an earlier one, and one about another subject does not touch it.
   */
  readonly subject: string;
  /** Absent where only a rule gives this type a state (docs/how-to/enforcement.md). */
  readonly state?: BillingState;
  /** Which other subjects of this customer are over with it, as far as they are older. */
  readonly settles?: Settlement;
  /** The subscription has come to its end. */
  readonly ended?: true;
  /** For people, without control characters and at most 256 characters. */
  readonly reason: string;
}

/** `alerts`: usage and spend alerts; `all`: everything that this billing system has said. */
export type Settlement = 'alerts' | 'all';

/** Whom an alert is about: by the billing system's own id, by a name that the operator gave over there, or both. */
export interface AlertCustomer {
  readonly id?: string;
  /** A tenant id out of the message. */
  readonly tenant?: string;
  /** The tenant id was written over there by the operator itself, so it needs no confirmation by discovery. */
  readonly certain?: true;
}

export type ParsedAlert =
  | { readonly kind: 'alert'; readonly alert: Alert }
  | { readonly kind: 'refusals'; readonly report: RefusalReport }
  /** Of no concern here. */
  | { readonly kind: 'irrelevant'; readonly reason: string }
  /** Not in the form that the billing system documents: `what: where: "input"`. */
  | { readonly kind: 'malformed'; readonly reason: string };

/** Usage of any customer that the billing system accepted and does not bill. */
export interface RefusalReport extends Pick<Alert, 'provider' | 'id'> {
  readonly refusals: readonly UnbilledUsage[];
}

export interface UnbilledUsage {
  readonly events: number;
  /** Why, in the billing system's words. */
  readonly reason: string;
  /** The id of one of the events, where it is told. */
  readonly example?: string;
}

/** Subjects of usage and spend alerts begin so. */
export const ALERT_SUBJECT = 'alert/';

const LONGEST_REASON = 256;

/** A text of somebody else, fit for annotations and logs. */
export function reasonText(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ')
    .trim()
    .slice(0, LONGEST_REASON);
}

const LONGEST_ID = 256;

/** Ten times as many as an invoice with hundreds of lines has. */
const MAX_VALUES = 100_000;

/** The JSON object in a signed body; undefined when it is none, or of more values than a message has. */
export function jsonObject(body: Uint8Array): JsonObject | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(body);
    if (jsonShape(text).values > MAX_VALUES) return undefined;
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** An id of somebody else: a text of at most 256 characters without control characters; undefined otherwise. */
export function idAt(parent: JsonObject, key: string): string | undefined {
  const value = parent[key];
  if (typeof value !== 'string' || value === '' || value.length > LONGEST_ID) return undefined;
  return /[\p{Cc}\u2028\u2029]/u.test(value) ? undefined : value;
}

/** Unix seconds in milliseconds since the epoch. */
export function secondsAt(parent: JsonObject, key: string): number | undefined {
  const value = parent[key];
  return typeof value === 'number' && Number.isFinite(value) && value > 0
    ? value * 1000
    : undefined;
}

/** An RFC 3339 time in milliseconds since the epoch. */
export function instantAt(parent: JsonObject, key: string): number | undefined {
  const value = parent[key];
  const parsed = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(parsed) ? undefined : parsed;
}
