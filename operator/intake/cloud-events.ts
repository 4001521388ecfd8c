import type { IncomingHttpHeaders } from 'node:http';
import { NumberText } from '../model/complete-event.ts';
import { isRecord } from '../model/is-record.ts';
import { jsonText } from '../model/json-shape.ts';
import { isDay } from '../model/pricing/past.ts';
import { quote } from '../model/quote.ts';
import { ENVOY_EVENT_TYPE } from '../settings/parsers/gateway-presets.ts';

/** An event as a sender sent it. */
export interface GatewayEvent {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly subject?: string;
  /** Milliseconds since the epoch; absent if the event has no time. */
  readonly at?: number;
  readonly data: EventData;
}

/** The data of an event; it matters only if a rule reads it. */
export type EventData =
  | { readonly kind: 'json'; readonly value: unknown }
  | { readonly kind: 'unreadable'; readonly reason: string };

/** A member of a body that is no usable event. */
export interface MemberProblem {
  readonly kind: 'problem';
  readonly id?: string;
  readonly source?: string;
  /** `what: where: "input"` */
  readonly reason: string;
}

export type Member = { readonly kind: 'event'; readonly event: GatewayEvent } | MemberProblem;

export type EventBody =
  | { readonly kind: 'members'; readonly members: readonly Member[] }
  /** A body of our own usage events (docs/reference/events.md#pushed-events). */
  | { readonly kind: 'usage-events' }
  /** Nothing was read. `problem` is `what: where: "input": how to fix it`. */
  | { readonly kind: 'unreadable'; readonly status: 400 | 413 | 415; readonly problem: string };

/** Most events of one body (docs/how-to/ai-gateways.md#limits). */
const MAX_MEMBERS = 5000;
const MAX_DEPTH = 16;
/** Characters of `id`, `source`, `type` and `subject`. */
export const MAX_ATTRIBUTE = 1024;
/** Characters that identities are hashed with, or that act on a terminal. */
const UNCLEAN = /[\p{Cc}\p{Cs}\u2028\u2029]/u;
/** RFC 3339. Without an offset it is UTC: Python before 3.11 writes such times. */
const TIME =
  /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:(\.\d{1,3})\d*)?([Zz]|[+-]\d{2}:\d{2})?$/;
/** A number with more digits than a double may keep, or with an exponent. */
const LONG_NUMBER = /[:[,]\s*-?(?:[\d.]{16}|[\d.]+[eE])/;

/** Without one of them `application/json` has neither a CloudEvent nor an event of Envoy. */
const MARKS = ['"specversion"', '"event_id"'];

/** How a body carries events, by `Content-Type` and the `ce-` headers. */
export type EventMode = 'structured' | 'batched' | 'binary' | 'json';

/**
 * Returns how a body carries events (CloudEvents 1.0, HTTP binding, section 3). `json` is
 * `application/json`: the body shows whether it has CloudEvents or our own usage events. Undefined
 * for all other bodies.
 */
export function eventMode(headers: IncomingHttpHeaders): EventMode | undefined {
  const type = mediaType(headers['content-type']);
  if (type === 'application/cloudevents-batch+json') return 'batched';
  if (type === 'application/cloudevents+json') return 'structured';
  if (headers['ce-specversion'] !== undefined) return 'binary';
  return type === 'application/json' ? 'json' : undefined;
}

/** Reads the events of a body. Never throws. */
export function readEvents(body: Buffer, headers: IncomingHttpHeaders): EventBody {
  const mode = eventMode(headers);
  if (mode === undefined) {
    const types = 'application/cloudevents+json, application/cloudevents-batch+json';
    return unreadable(415, `unsupported media type: Content-Type: send ${types}`);
  }
  if (mode === 'binary') return { kind: 'members', members: [binaryEvent(body, headers)] };
  // Our own usage events are parsed by their own route. This search costs less than parsing twice.
  if (mode === 'json' && !MARKS.some((mark) => body.includes(mark))) {
    return { kind: 'usage-events' };
  }
  const parsed = parseJson(body);
  if (parsed.kind === 'unreadable') return parsed;
  const { value } = parsed;
  if (mode === 'structured') return { kind: 'members', members: [readMember(value, false)] };
  if (mode === 'batched' && !Array.isArray(value)) {
    return unreadable(400, `not an array: body: ${quoted(value)}: send an array of events`);
  }
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const isForeign = (one: unknown): boolean => isEnvoyEvent(one) || hasSpecVersion(one);
  if (mode === 'json' && !list.some(isForeign)) return { kind: 'usage-events' };
  if (list.length > MAX_MEMBERS) {
    const fix = `send at most ${MAX_MEMBERS} at a time`;
    return unreadable(413, `too many events: body: "${list.length}": ${fix}`);
  }
  return { kind: 'members', members: list.map((one) => readMember(one, mode === 'json')) };
}

function readMember(value: unknown, mayBeEnvoy: boolean): Member {
  if (!isRecord(value)) return problem({}, `not an object: event: ${quoted(value)}`);
  if (mayBeEnvoy && isEnvoyEvent(value)) return envoyEvent(value);
  return cloudEvent(value, () => structuredData(value));
}

/** Reads the attributes of a CloudEvent. Null is absent. */
function cloudEvent(attributes: Readonly<Record<string, unknown>>, data: () => EventData): Member {
  const read: Partial<Record<string, string>> = {};
  for (const name of ['id', 'source', 'specversion', 'type', 'subject', 'time']) {
    const value = attributes[name] ?? undefined;
    if (value === undefined && (name === 'subject' || name === 'time')) continue;
    const wrong = attributeProblem(value);
    if (wrong !== undefined || typeof value !== 'string') {
      return problem(read, `${wrong}: ${name}: ${quoted(value)}`);
    }
    read[name] = value;
  }
  const { specversion, id = '', source = '', type = '', subject, time } = read;
  if (specversion !== '1.0') return problem(read, `not 1.0: specversion: ${quoted(specversion)}`);
  const at = time === undefined ? undefined : instant(time);
  if (time !== undefined && at === undefined) {
    return problem(read, `not a time such as 2026-11-21T09:00:00Z: time: ${quoted(time)}`);
  }
  return { kind: 'event', event: { id, source, type, subject, at, data: data() } };
}

function attributeProblem(value: unknown): string | undefined {
  if (value === undefined || value === '') return 'missing';
  if (typeof value !== 'string') return 'not a text';
  if (value.length > MAX_ATTRIBUTE) return `longer than ${MAX_ATTRIBUTE} characters`;
  return UNCLEAN.test(value) ? 'control characters' : undefined;
}

function structuredData(event: Readonly<Record<string, unknown>>): EventData {
  const { data, data_base64: base64, datacontenttype: type } = event;
  if (base64 === undefined || base64 === null) {
    return isJsonType(type ?? undefined) ? { kind: 'json', value: data } : notJson(type);
  }
  if (data !== undefined && data !== null) {
    return { kind: 'unreadable', reason: 'data beside data_base64: data: "…"' };
  }
  if (type === undefined || type === null || !isJsonType(type)) return notJson(type);
  if (typeof base64 !== 'string') {
    return { kind: 'unreadable', reason: `not a text: data_base64: ${quoted(base64)}` };
  }
  return dataOf(Buffer.from(base64, 'base64'));
}

/** Reads an event in binary mode: attributes are headers, the body is the data. */
function binaryEvent(body: Buffer, headers: IncomingHttpHeaders): Member {
  const attributes: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (!name.startsWith('ce-') || typeof value !== 'string') continue;
    const text = headerText(value);
    if (text === undefined) return problem({}, `not percent-encoded: ${name}: ${quoted(value)}`);
    attributes[name.slice('ce-'.length)] = text;
  }
  const type = headers['content-type'];
  return cloudEvent(attributes, () => (isJsonType(type) ? dataOf(body) : notJson(type)));
}

/** A header's value without quotes, percent-decoded once; undefined if that is no UTF-8. */
function headerText(value: string): string | undefined {
  const unquoted = /^"(.*)"$/.exec(value)?.[1]?.replaceAll(/\\(.)/g, '$1') ?? value;
  try {
    return decodeURIComponent(unquoted);
  } catch {
    return undefined;
  }
}

/** Reads a usage event of Envoy AI Gateway (envoyproxy/ai-gateway, proposal 012). */
function envoyEvent(value: Readonly<Record<string, unknown>>): Member {
  const { event_id: id, emitted_at: emitted } = value;
  const read = { id: String(id), source: 'envoy' };
  const wrong = attributeProblem(id);
  if (wrong !== undefined) return problem({}, `${wrong}: event_id: ${quoted(id)}`);
  const at = typeof emitted === 'number' && Number.isSafeInteger(emitted) ? emitted : undefined;
  if (at === undefined && emitted !== undefined && emitted !== null) {
    return problem(read, `not milliseconds: emitted_at: ${quoted(emitted)}`);
  }
  const data = { kind: 'json', value } as const;
  return { kind: 'event', event: { ...read, type: ENVOY_EVENT_TYPE, at, data } };
}

function isEnvoyEvent(value: unknown): boolean {
  return (
    isRecord(value) && value['schema_version'] === 'v1' && typeof value['event_id'] === 'string'
  );
}

function hasSpecVersion(value: unknown): boolean {
  return isRecord(value) && value['specversion'] !== undefined;
}

function problem(read: { id?: string; source?: string }, reason: string): MemberProblem {
  const { id, source } = read;
  return { kind: 'problem', id, source, reason };
}

function instant(text: string): number | undefined {
  if (text.length > MAX_ATTRIBUTE) return undefined;
  const [, day = '', time = '', fraction = '', zone = 'Z'] = TIME.exec(text) ?? [];
  const at = isDay(day) ? Date.parse(`${day}T${time}${fraction}${zone.toUpperCase()}`) : Number.NaN;
  return Number.isFinite(at) ? at : undefined;
}

function dataOf(bytes: Buffer): EventData {
  const parsed = parseJson(bytes, 'data');
  if (parsed.kind === 'value') return { kind: 'json', value: parsed.value };
  return { kind: 'unreadable', reason: parsed.problem };
}

function notJson(type: unknown): EventData {
  return { kind: 'unreadable', reason: `not JSON: datacontenttype: ${quoted(type)}` };
}

/** Whether data of a type is JSON; undefined means JSON. */
function isJsonType(type: unknown): boolean {
  if (type === undefined) return true;
  return typeof type === 'string' && /^[^/]+\/(?:[^/]+\+)?json$/.test(mediaType(type) ?? '');
}

function mediaType(text: string | undefined): string | undefined {
  return text?.split(';', 1)[0]?.trim().toLowerCase();
}

type ParsedJson = { readonly kind: 'value'; readonly value: unknown } | Unreadable;
type Unreadable = Extract<EventBody, { kind: 'unreadable' }>;

/** Parses JSON whose numbers keep their digits ({@link NumberText}). */
function parseJson(bytes: Buffer, where = 'body'): ParsedJson {
  const read = jsonText(bytes, MAX_DEPTH, where);
  if (read.kind === 'refused') return unreadable(read.status, read.problem);
  const { text } = read;
  try {
    const value: unknown = LONG_NUMBER.test(text) ? JSON.parse(text, withDigits) : JSON.parse(text);
    return { kind: 'value', value };
  } catch (error) {
    const reason = error instanceof SyntaxError ? error.message : 'unreadable';
    return unreadable(400, `not valid JSON: ${where}: ${quoted(reason)}: send JSON`);
  }
}

/** `context.source` is the number's own text (ECMAScript, JSON.parse source text access). */
function withDigits(this: unknown, _key: string, value: unknown, ...rest: unknown[]): unknown {
  const source = (rest[0] as { readonly source?: string } | undefined)?.source;
  if (typeof value !== 'number' || source === undefined) return value;
  const isExact = Number.isSafeInteger(value) && /^-?\d+$/.test(source);
  return isExact ? value : new NumberText(source);
}

function unreadable(status: Unreadable['status'], problem: string): Unreadable {
  return { kind: 'unreadable', status, problem };
}

function quoted(value: unknown): string {
  return quote(typeof value === 'string' ? value : (JSON.stringify(value) ?? 'none'));
}
