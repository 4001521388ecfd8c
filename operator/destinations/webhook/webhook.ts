import type { MetricDefinition } from '../../model/catalog.ts';
import type { UsageEvent } from '../../model/event.ts';
import {
  type HttpClient,
  type HttpOutcome,
  isSuccess,
  redactPath,
  retryAfterMs,
} from '../../outbound/http-client.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type {
  DeliveryOutcome,
  Destination,
  DestinationContext,
  DestinationLimits,
  StepOutcome,
} from '../destination.ts';
import { Announcements } from '../announcements.ts';
import {
  type LifecycleEvent,
  lifecycleCloudEvent,
  sourceProblem,
  structuredEvent,
  usageCloudEvent,
} from '../cloud-events.ts';
import { SizedEvents } from '../sized-events.ts';
import type { WebhookSettings } from './settings.ts';
import { signatureHeaders } from './signing.ts';

/** The media type of a CloudEvents batch. Receivers compare it as text, so it has no parameters. */
const CLOUD_EVENTS_BATCH = 'application/cloudevents-batch+json';
const TRY_LATER = new Set([408, 425, 429]);
const TOO_LARGE = 413;
const REFUSED = new Set([400, TOO_LARGE, 422]);
/** The receiver refuses the credentials. */
const UNAUTHORIZED = new Set([401, 403]);
const HINTS: Readonly<Record<number, string>> = {
  404: 'check spec.webhook.url (WEBHOOK_URL)',
  410: 'the endpoint is retired, set another spec.webhook.url (WEBHOOK_URL)',
  415: 'the endpoint does not take CloudEvents batches',
};

/**
 * Posts CloudEvents 1.0 batches to a URL, signed when there is a secret
 * (docs/how-to/destinations/webhook.md). It takes every metric, informational ones included, and
 * also publishes tenants and the catalogue. The constructor throws a TypeError for settings that
 * cannot be used.
 */
export class Webhook implements Destination {
  readonly name: string;
  readonly type = 'webhook';
  readonly customers: Announcements;
  readonly notices: Announcements;
  readonly #settings: WebhookSettings;
  readonly #clock: Clock;
  readonly #client: HttpClient;
  /** Method and path, for reasons. */
  readonly #where: string;
  /** Advice when the receiver refuses the credentials. */
  readonly #credentials: string;
  readonly #extraHeaders: Readonly<Record<string, string>>;
  readonly #texts: SizedEvents<string>;

  constructor(
    name: string,
    settings: WebhookSettings,
    { outbound, clock, logger }: DestinationContext,
  ) {
    const problem = sourceProblem(settings.source);
    if (problem !== undefined) throw new TypeError(problem);
    this.name = name;
    this.#settings = settings;
    this.#clock = clock;
    this.customers = new Announcements({
      name,
      source: settings.source,
      post: (event, signal) => this.#announce(event, signal),
      clock,
      logger,
    });
    this.notices = this.customers;
    this.#texts = new SizedEvents(
      (event) => structuredEvent(usageCloudEvent(event, settings.source)),
      (text) => Buffer.byteLength(text) + 1,
    );
    this.#client = outbound.client({ name, baseUrl: settings.url });
    this.#where = `POST ${redactPath(new URL(settings.url).pathname)}`;
    this.#credentials = credentialHint(settings);
    this.#extraHeaders = Object.fromEntries(
      [...settings.headers].map(([header, secret]) => [header, secret.reveal()]),
    );
  }

  get limits(): DestinationLimits {
    return this.#texts.limits;
  }

  accepts(): boolean {
    return true;
  }

  bootstrap(catalog: readonly MetricDefinition[], signal: AbortSignal): Promise<StepOutcome> {
    return this.customers.bootstrap(catalog, signal);
  }

  async send(
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryOutcome[]> {
    const body = batchBody(this.#texts.take(events));
    const outcome = await this.#post(body, signal);
    if (isTooLarge(outcome)) this.#texts.halve(Buffer.byteLength(body));
    const result = this.#classify(outcome);
    return events.map(() => result);
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  async #announce(event: LifecycleEvent, signal: AbortSignal): Promise<CallOutcome> {
    return this.#classify(
      await this.#post(batchBody([structuredEvent(lifecycleCloudEvent(event))]), signal),
    );
  }

  #classify(outcome: HttpOutcome): CallOutcome {
    return classifyAnswer(outcome, this.#where, this.#credentials, this.#clock.now());
  }

  #post(body: string, signal: AbortSignal): Promise<HttpOutcome> {
    return this.#client.request({
      method: 'POST',
      path: '',
      headers: {
        ...this.#extraHeaders,
        'content-type': CLOUD_EVENTS_BATCH,
        ...signatureHeaders(this.#settings.secrets, body, this.#clock.now()),
      },
      body,
      signal,
    });
  }
}

function batchBody(events: readonly string[]): string {
  return `[${events.join(',')}]`;
}

/** The outcome of a complete call; `split` is a refusal that does not name the event. */
type CallOutcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number }
  | { readonly kind: 'blocked'; readonly reason: string }
  | { readonly kind: 'split'; readonly reason: string };

/**
 * Translates a receiver's answer into an outcome
 * (docs/how-to/destinations/webhook.md#what-errors-mean). Any 2xx is delivered. Errors that no
 * batch can fix (credentials, a retired endpoint, a redirect, an unknown format) block the
 * destination, so that a wrong URL never turns events into dead letters. `where` is the request's
 * method and path, `credentials` the advice when they are refused.
 */
function classifyAnswer(
  outcome: HttpOutcome,
  where: string,
  credentials: string,
  now: number,
): CallOutcome {
  if (outcome.kind === 'failed') {
    return { kind: outcome.permanent ? 'blocked' : 'retry', reason: outcome.reason };
  }
  const { status } = outcome;
  if (isSuccess(status)) return { kind: 'delivered' };
  const reason = `HTTP ${where}: status ${status}`;
  if (TRY_LATER.has(status) || status >= 500) {
    const afterMs = retryAfterMs(outcome.headers['retry-after'], now);
    return { kind: 'retry', reason, afterMs };
  }
  if (REFUSED.has(status)) return { kind: 'split', reason };
  if (status < 400) return { kind: 'blocked', reason: `${reason}: redirects are not followed` };
  const hint = UNAUTHORIZED.has(status) ? credentials : HINTS[status];
  return { kind: 'blocked', reason: hint === undefined ? reason : `${reason}: ${hint}` };
}

/** Returns advice on credentials that a receiver may have refused, and where to set them. */
function credentialHint({ url, secrets, headers }: WebhookSettings): string {
  const key = 'spec.webhook.secretRefs (WEBHOOK_SECRET)';
  const added = 'spec.webhook.headers (WEBHOOK_HEADERS)';
  const parts = [
    ...(secrets.length > 0
      ? [`compare the signing key in ${key} with the one that the receiver verifies with`]
      : []),
    ...(headers.size > 0 ? [`check the credentials in ${added}`] : []),
    ...(new URL(url).username === ''
      ? []
      : ['check the user and password in spec.webhook.url (WEBHOOK_URL)']),
  ];
  if (parts.length > 0) return parts.join('; ');
  return `no credential is configured; give the receiver one by ${key} or ${added}`;
}

/** Returns whether the receiver refused the body as too large. */
function isTooLarge(outcome: HttpOutcome): boolean {
  return outcome.kind === 'response' && outcome.status === TOO_LARGE;
}
