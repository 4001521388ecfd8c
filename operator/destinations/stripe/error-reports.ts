import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { LateRefusal } from '../destination.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import { CALL_EVENTS, firstOfCall } from './meter-event-stream.ts';
import type { StripeClient } from './stripe-client.ts';

const EVENTS = '/v2/core/events';
const TYPES = ['v1.billing.meter.error_report_triggered', 'v1.billing.meter.no_meter_found'];
/** Stripe validates events after it accepts them, and reports errors within minutes. */
const POLL_EVERY_MS = 600_000;
/** The interval where the key may not read reports. */
const RETRY_MS = 3_600_000;
/** The interval while it is unknown whether the key may read them. */
const UNKNOWN_MS = 10_000;
/** How long a report is shown. */
const SHOWN_MS = 86_400_000;
const MAX_REPORTS = 20;
const MAX_REASON = 300;

/**
 * Reads Stripe's reports about meter events that it accepted and then found wrong
 * (docs/how-to/destinations/stripe.md#what-errors-mean).
 */
export class ErrorReports {
  readonly #name: string;
  readonly #client: StripeClient;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onNew: (codes: readonly string[]) => void;
  #nextPoll = Number.NEGATIVE_INFINITY;
  #areReadable: boolean | undefined;
  /** Refusals by the report's id, newest first; a report never changes. */
  #reports = new Map<string, readonly LateRefusal[]>();

  /** `onNew` receives the codes of new reports. */
  constructor(
    name: string,
    client: StripeClient,
    clock: Clock,
    logger: Logger,
    onNew: (codes: readonly string[]) => void,
  ) {
    this.#name = name;
    this.#client = client;
    this.#clock = clock;
    this.#logger = logger;
    this.#onNew = onNew;
  }

  /** Reads new reports when the last poll is old. A failure does not stop usage. */
  async poll(signal: AbortSignal): Promise<void> {
    const now = this.#clock.monotonic();
    if (now < this.#nextPoll) return;
    this.#nextPoll = now + POLL_EVERY_MS;
    const since = new Date(this.#clock.now() - SHOWN_MS).toISOString();
    const params = { types: TYPES, created: { gte: since }, limit: MAX_REPORTS };
    const answer = await this.#client.get(EVENTS, params, signal);
    if (answer.kind !== 'ok') {
      this.#logger.info(`[${this.#name}] reports of late errors cannot be read: ${answer.reason}`);
      if (answer.kind === 'retry') {
        // While this is unknown, `send` waits for it.
        if (this.#areReadable === undefined) {
          this.#nextPoll = this.#clock.monotonic() + UNKNOWN_MS;
        }
        return;
      }
      this.#areReadable = false;
      this.#nextPoll = this.#clock.monotonic() + RETRY_MS;
      return;
    }
    this.#areReadable = true;
    const ids = objectsOf(answer.body, 'data').flatMap((event) => textOf(event, 'id') ?? []);
    const found = new Map<string, readonly LateRefusal[]>();
    for (const id of ids) {
      const report = this.#reports.get(id) ?? (await this.#read(id, signal));
      if (report !== undefined) found.set(id, report);
    }
    this.#reports = found;
  }

  current(): readonly LateRefusal[] {
    return [...this.#reports.values()].flat();
  }

  /** Returns whether the key may read reports, by the last conclusive poll; undefined before. */
  areReadable(): boolean | undefined {
    return this.#areReadable;
  }

  /** Reads a report; undefined when it is unavailable, and the next poll requests it again. */
  async #read(id: string, signal: AbortSignal): Promise<readonly LateRefusal[] | undefined> {
    const answer = await this.#client.get(`${EVENTS}/${encodeURIComponent(id)}`, {}, signal);
    if (answer.kind !== 'ok') return undefined;
    const refusals = refusalsOf(answer.body);
    this.#onNew(codesOf(answer.body));
    for (const { reason, events, example } of refusals) {
      const such = example === undefined ? '' : `, such as ${example}`;
      const what = `${events} events were accepted and refused later${such}: ${reason}`;
      this.#logger.error(`[${this.#name}] ${what}`);
    }
    return refusals;
  }
}

function codesOf(event: JsonObject): readonly string[] {
  const kinds = objectsOf(objectOf(objectOf(event, 'data'), 'reason'), 'error_types');
  return kinds.flatMap((kind) => textOf(kind, 'code') ?? []);
}

/** Returns one refusal for each kind of error in a report. */
function refusalsOf(event: JsonObject): readonly LateRefusal[] {
  const data = objectOf(event, 'data');
  const cause = objectOf(data, 'reason');
  const at = Date.parse(textOf(event, 'created') ?? '') || 0;
  return objectsOf(cause, 'error_types').map((kind) => {
    const [sample] = objectsOf(kind, 'sample_errors');
    const stated = sample === undefined ? undefined : textOf(sample, 'error_message');
    const code = textOf(kind, 'code') ?? 'unknown error';
    const { example, isCall = false } = sample === undefined ? {} : eventOf(sample);
    const among = isCall ? ` (in the call of up to ${CALL_EVENTS} events that begins with it)` : '';
    return {
      at,
      events: Number(kind['error_count'] ?? 0),
      reason: (stated === undefined ? code : `${code}: ${stated}`).slice(0, MAX_REASON) + among,
      example,
    };
  });
}

/**
 * Returns the event in a sample. The idempotency key of its request begins with the id of the
 * event. The version of the report decides the field (https://docs.stripe.com/api/v2/core/events).
 * A call of the stream has the id of its first event.
 */
function eventOf(sample: JsonObject): { readonly example?: string; readonly isCall?: boolean } {
  const request = objectOf(sample, 'request');
  const key = textOf(request, 'idempotency_key') ?? textOf(request, 'identifier');
  if (key === undefined) return {};
  const first = firstOfCall(key);
  if (first !== undefined) return { example: first, isCall: true };
  return { example: key.replace(/^((?:svc1|agg1)_[0-9a-f]{32})-\d+$/, '$1') };
}
