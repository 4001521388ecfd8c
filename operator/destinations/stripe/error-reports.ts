import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { LateRefusal } from '../destination.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import { CALL_EVENTS, firstOfCall } from './meter-event-stream.ts';
import type { StripeClient } from './stripe-client.ts';

const EVENTS = '/v2/core/events';
const TYPES = ['v1.billing.meter.error_report_triggered', 'v1.billing.meter.no_meter_found'];
/** Stripe checks events for good only after it has taken them, and reports within minutes. */
const POLL_EVERY_MS = 600_000;
/** Where reports may not be read. */
const RETRY_MS = 3_600_000;
/** Where it is not known yet whether they may. */
const UNKNOWN_MS = 10_000;
/** How long a report is shown. */
const SHOWN_MS = 86_400_000;
const MAX_REPORTS = 20;
const MAX_REASON = 300;

/**
 * What Stripe says was wrong with meter events after it had taken them
 * (docs/how-to/destinations/stripe.md#what-errors-mean).
 */
export class ErrorReports {
  readonly #name: string;
  readonly #client: StripeClient;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onNew: (codes: readonly string[]) => void;
  #nextLook = Number.NEGATIVE_INFINITY;
  #areReadable: boolean | undefined;
  /** By the report's id, newest first; a report never changes. */
  #reports = new Map<string, readonly LateRefusal[]>();

  /** `onNew` receives the codes of reports that were not seen before. */
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

  /** Reads them when that was long ago. Usage goes on, whatever comes of it. */
  async poll(signal: AbortSignal): Promise<void> {
    const now = this.#clock.monotonic();
    if (now < this.#nextLook) return;
    this.#nextLook = now + POLL_EVERY_MS;
    const since = new Date(this.#clock.now() - SHOWN_MS).toISOString();
    const params = { types: TYPES, created: { gte: since }, limit: MAX_REPORTS };
    const answer = await this.#client.get(EVENTS, params, signal);
    if (answer.kind !== 'ok') {
      this.#logger.info(`[${this.#name}] reports of late errors cannot be read: ${answer.reason}`);
      if (answer.kind === 'retry') {
        // As long as nobody knows, somebody may wait for it.
        if (this.#areReadable === undefined) {
          this.#nextLook = this.#clock.monotonic() + UNKNOWN_MS;
        }
        return;
      }
      this.#areReadable = false;
      this.#nextLook = this.#clock.monotonic() + RETRY_MS;
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

  /** Whether the key may read them, by the last look that could tell; undefined before. */
  areReadable(): boolean | undefined {
    return this.#areReadable;
  }

  /** Undefined when it cannot be had: it is requested again at the next look. */
  async #read(id: string, signal: AbortSignal): Promise<readonly LateRefusal[] | undefined> {
    const answer = await this.#client.get(`${EVENTS}/${encodeURIComponent(id)}`, {}, signal);
    if (answer.kind !== 'ok') return undefined;
    const refusals = refusalsOf(answer.body);
    this.#onNew(codesOf(answer.body));
    for (const { reason, events, example } of refusals) {
      const such = example === undefined ? '' : `, such as ${example}`;
      const what = `${events} events were taken and refused later${such}: ${reason}`;
      this.#logger.error(`[${this.#name}] ${what}`);
    }
    return refusals;
  }
}

function codesOf(event: JsonObject): readonly string[] {
  const kinds = objectsOf(objectOf(objectOf(event, 'data'), 'reason'), 'error_types');
  return kinds.flatMap((kind) => textOf(kind, 'code') ?? []);
}

/** One for each kind of error in a report. */
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
 * Requests are known by their idempotency keys, which begin with the id of the event: one field or the other
 * has it, by the version of the report (https://docs.stripe.com/api/v2/core/events). A call of the stream has the
 * id of its first event.
 */
function eventOf(sample: JsonObject): { readonly example?: string; readonly isCall?: boolean } {
  const request = objectOf(sample, 'request');
  const key = textOf(request, 'idempotency_key') ?? textOf(request, 'identifier');
  if (key === undefined) return {};
  const first = firstOfCall(key);
  if (first !== undefined) return { example: first, isCall: true };
  return { example: key.replace(/^((?:svc1|agg1)_[0-9a-f]{32})-\d+$/, '$1') };
}
