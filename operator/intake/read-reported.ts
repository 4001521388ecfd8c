import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { CLEAN_TEXT, EVENT_LIMITS } from '../model/event-schema.ts';
import { quote } from '../model/quote.ts';
import { type GatewayEvent, MAX_ATTRIBUTE, type EventBody, readEvents } from './cloud-events.ts';
import type { RefusedRequest } from './dead-letters.ts';
import { readQuantities, textAt } from './mapping.ts';
import type { ReportedRequest } from './reported-request.ts';
import { callerOf, CompiledRules, type IntakeRules } from './rules.ts';

/** What a body holds. */
export type ReportedBody =
  | {
      readonly kind: 'reported';
      readonly requests: readonly ReportedRequest[];
      readonly refused: readonly RefusedRequest[];
      /** Events without usage: of a type without a rule, health checks, requests without tokens. */
      readonly ignored: number;
    }
  | Exclude<EventBody, { kind: 'members' }>;

type ReadRequest =
  | { readonly kind: 'request'; readonly request: ReportedRequest }
  | { readonly kind: 'ignored' }
  | { readonly kind: 'refused'; readonly reason: string };

const IGNORED = { kind: 'ignored' } as const;
const CLEAN = new RegExp(CLEAN_TEXT, 'u');
const KEY_BYTES = 16;

/**
 * Reads the requests that the events of a body report. `headers` are those of the HTTP request,
 * with names in lower case. `receivedAt` (milliseconds since the epoch) is the time of events
 * without one. Never throws.
 */
export function readReported(
  body: Buffer,
  headers: IncomingHttpHeaders,
  rules: IntakeRules,
  receivedAt: number,
): ReportedBody {
  const read = readEvents(body, headers);
  if (read.kind !== 'members') return read;
  const compiled = CompiledRules.of(rules);
  const requests: ReportedRequest[] = [];
  const refused: RefusedRequest[] = [];
  for (const member of read.members) {
    if (member.kind === 'problem') {
      const { id, source, reason } = member;
      refused.push({ id, source, reason });
      continue;
    }
    const { id, source } = member.event;
    const outcome = readEvent(member.event, compiled, receivedAt);
    if (outcome.kind === 'request') requests.push(outcome.request);
    else if (outcome.kind === 'refused') refused.push({ id, source, reason: outcome.reason });
  }
  const ignored = read.members.length - requests.length - refused.length;
  return { kind: 'reported', requests, refused, ignored };
}

/**
 * The identity of an event: base64url of the first 16 bytes of SHA-256 over `source` NUL `id`. Raw
 * ids have characters and lengths that keys must not have.
 */
export function eventKey(source: string, id: string): string {
  const hash = createHash('sha256').update(`${source}\0${id}`).digest();
  return hash.subarray(0, KEY_BYTES).toString('base64url');
}

function readEvent(event: GatewayEvent, rules: CompiledRules, receivedAt: number): ReadRequest {
  const rule = rules.byType.get(event.type);
  if (rule === undefined) return IGNORED;
  const { id, source, data, at = receivedAt } = event;
  if (data.kind === 'unreadable') return { kind: 'refused', reason: data.reason };
  const subject = rule.subject === undefined ? event.subject : textAt(data.value, rule.subject);
  if (subject !== undefined && rule.ignoredSubjects?.includes(subject) === true) return IGNORED;
  const usage = readQuantities(rule, data.value);
  if (usage.kind === 'refused') return usage;
  if (usage.quantities.length === 0) return IGNORED;
  const caller = subject === undefined ? '' : callerOf(subject, rule);
  if (subject === undefined || caller === '') {
    return { kind: 'refused', reason: `no caller: subject: ${quote(subject ?? 'none')}` };
  }
  if (subject.length > MAX_ATTRIBUTE) {
    const what = `longer than ${MAX_ATTRIBUTE} characters`;
    return { kind: 'refused', reason: `${what}: subject: ${quote(subject)}` };
  }
  const tenant = rules.tenantOf(caller);
  if (tenant.length > EVENT_LIMITS.tenantCharacters || !CLEAN.test(tenant + subject)) {
    return { kind: 'refused', reason: `not usable as a tenant: subject: ${quote(subject)}` };
  }
  const { quantities } = usage;
  return {
    kind: 'request',
    request: { key: eventKey(source, id), source, id, subject, tenant, at, quantities },
  };
}
