import type { BillingState } from '../settings/settings.ts';
import type { DestinationType } from '../model/destination-type.ts';
import { isRecord } from '../model/is-record.ts';
import { jsonShape } from '../model/json-shape.ts';
import type { JsonObject } from './json.ts';

/** A message of a billing system about one of its customers, in the operator's terms. */
export interface Alert {
  readonly provider: DestinationType;
  /** The billing system's id of this message. It repeats the id when it sends the message again. */
  readonly id: string;
  /** The billing system's own name of the event type, as ENFORCEMENT_RULES names it. */
  readonly type: string;
  /** When it happened at the billing system, ms since the epoch; absent if not stated. */
  readonly at?: number;
  readonly customer: AlertCustomer;
  /**
   * The object that the alert is about, such as `subscription/sub_1` or `alert/<id>`. An alert
   * replaces earlier alerts about the same subject and leaves other subjects alone.
   */
  readonly subject: string;
  /** Absent where only a rule gives this type a state (docs/how-to/enforcement.md). */
  readonly state?: BillingState;
  /** The other subjects of this customer that the alert clears, if their alerts are older. */
  readonly settles?: Settlement;
  /** The subscription has come to its end. */
  readonly ended?: true;
  /** For people, without control characters and at most 256 characters. */
  readonly reason: string;
}

/** `alerts`: usage and spend alerts; `all`: all alerts of the billing system about the customer. */
export type Settlement = 'alerts' | 'all';

/** The customer of an alert: the billing system's own id, the operator's name for it, or both. */
export interface AlertCustomer {
  readonly id?: string;
  /** The tenant id in the message. */
  readonly tenant?: string;
  /** The operator itself wrote the tenant id there, so discovery need not confirm it. */
  readonly certain?: true;
}

export type ParsedAlert =
  | { readonly kind: 'alert'; readonly alert: Alert }
  | { readonly kind: 'refusals'; readonly report: RefusalReport }
  /** A message that the operator has no use for. */
  | { readonly kind: 'irrelevant'; readonly reason: string }
  /** A message that breaks the documented form: `what: where: "input"`. */
  | { readonly kind: 'malformed'; readonly reason: string };

/** Usage of any customers that the billing system accepted and does not bill. */
export interface RefusalReport extends Pick<Alert, 'provider' | 'id'> {
  readonly refusals: readonly UnbilledUsage[];
}

export interface UnbilledUsage {
  readonly events: number;
  /** The reason in the billing system's words. */
  readonly reason: string;
  /** The id of one of the events, where the report names one. */
  readonly example?: string;
}

/** The prefix of the subjects of usage and spend alerts. */
export const ALERT_SUBJECT = 'alert/';

const LONGEST_REASON = 256;

/** Makes somebody else's text fit for annotations and logs. */
export function reasonText(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ')
    .trim()
    .slice(0, LONGEST_REASON);
}

const LONGEST_ID = 256;

/** Ten times the values of an invoice with hundreds of lines. */
const MAX_VALUES = 100_000;

/** Parses a signed body's JSON object. Undefined otherwise, or with too many values. */
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

/** Reads a foreign id: at most 256 characters and no control characters; undefined otherwise. */
export function idAt(parent: JsonObject, key: string): string | undefined {
  const value = parent[key];
  if (typeof value !== 'string' || value === '' || value.length > LONGEST_ID) return undefined;
  return /[\p{Cc}\u2028\u2029]/u.test(value) ? undefined : value;
}

/** Reads Unix seconds as milliseconds since the epoch. */
export function secondsAt(parent: JsonObject, key: string): number | undefined {
  const value = parent[key];
  return typeof value === 'number' && Number.isFinite(value) && value > 0
    ? value * 1000
    : undefined;
}

/** Reads an RFC 3339 time as milliseconds since the epoch. */
export function instantAt(parent: JsonObject, key: string): number | undefined {
  const value = parent[key];
  const parsed = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(parsed) ? undefined : parsed;
}
