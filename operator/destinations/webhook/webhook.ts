import { createHmac } from 'node:crypto';
import type { WebhookSettings } from './settings.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Secret } from '../../model/secret.ts';
import { quote } from '../../model/validate-event.ts';
import {
  type HttpOutcome,
  isSuccess,
  redactPath,
  retryAfterMs,
} from '../../outbound/http-client.ts';
import type { DestinationContext } from '../context.ts';
import type { DeliveryOutcome, Destination, StepOutcome } from '../destination.ts';
import {
  batchBody,
  catalogData,
  CLOUD_EVENTS_BATCH,
  lifecycleCloudEvent,
  type LifecycleEvent,
  tenantData,
  usageCloudEvent,
} from './cloud-events.ts';

const BATCH_EVENTS = 500;
/** Fits the body limits that receivers commonly have; a 413 makes it smaller. */
const BATCH_BYTES = 512 * 1024;
const SMALLEST_BATCH_BYTES = 16 * 1024;
/** Characters that RFC 3986 allows; CloudEvents readers refuse a whole batch over one bad source. */
const URI_REFERENCE = /^[A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=%]+$/;

/**
 * Posts CloudEvents 1.0 batches to a URL (spec 1.4, design 7), signed when there is a secret. It gets
 * every metric, informational ones included, and hears of tenants and of the catalogue.
 */
export function createWebhook(
  name: string,
  settings: WebhookSettings,
  { outbound, clock, logger }: DestinationContext,
): Destination {
  if (!URI_REFERENCE.test(settings.source)) {
    throw new TypeError(`not a URI reference: CLUSTER_NAME: ${quote(settings.source)}`);
  }
  const client = outbound.client({ name, baseUrl: settings.url });
  const where = `POST ${redactPath(new URL(settings.url).pathname)}`;
  const extraHeaders = Object.fromEntries(
    [...settings.headers].map(([header, secret]) => [header, secret.reveal()]),
  );
  let batchBytes = BATCH_BYTES;
  const announced = new Map<string, { readonly data: string; readonly at: number }>();

  const post = (body: string, signal: AbortSignal): Promise<HttpOutcome> => {
    const signature = signatureHeader(settings.secrets, body, clock.now());
    return client.request({
      method: 'POST',
      path: '',
      headers: {
        ...extraHeaders,
        'content-type': CLOUD_EVENTS_BATCH,
        ...(signature !== undefined && { [SIGNATURE_HEADER]: signature }),
      },
      body,
      signal,
    });
  };

  /** The moment that names an announcement: the same for every attempt, new when there is something new to say. */
  const announcedAt = (key: string, data: unknown): number => {
    const text = JSON.stringify(data);
    const known = announced.get(key);
    if (known?.data === text) return known.at;
    const at = clock.now();
    announced.set(key, { data: text, at });
    return at;
  };

  const announce = async (
    type: LifecycleEvent['type'],
    key: string,
    subject: string,
    data: unknown,
    signal: AbortSignal,
  ): Promise<StepOutcome> => {
    const time = announcedAt(key, data);
    const id = `${key}-${Math.floor(time / 1000)}`;
    const event = { id, source: settings.source, type, subject, time, data };
    const outcome = await post(batchBody([lifecycleCloudEvent(event)]), signal);
    const result = classifyAnswer(outcome, where, clock.now());
    if (result.kind === 'retry' || result.kind === 'hold') return result;
    // A receiver that takes usage only must not lose it over an announcement that it refuses.
    if (result.kind === 'split') logger.warn(`[${name}] ${type} refused: ${result.reason}`);
    return { kind: 'done' };
  };

  const send = async (
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryOutcome[]> => {
    const body = batchBody(events.map((event) => usageCloudEvent(event, settings.source)));
    const outcome = await post(body, signal);
    if (isTooLarge(outcome)) {
      const half = Math.floor(Math.min(batchBytes, Buffer.byteLength(body)) / 2);
      batchBytes = Math.max(SMALLEST_BATCH_BYTES, half);
    }
    const result = classifyAnswer(outcome, where, clock.now());
    return events.map(() => result);
  };

  return {
    name,
    type: 'webhook',
    get limits() {
      return { batchEvents: BATCH_EVENTS, batchBytes };
    },
    encodedBytes: (event) => Buffer.byteLength(usageCloudEvent(event, settings.source)) + 1,
    accepts: () => true,
    bootstrap: (catalog, signal) =>
      announce('catalog.v1', 'catalog', settings.source, catalogData(catalog), signal),
    provision: (tenant, signal) =>
      announce('tenant.v1', `tenant-${tenant.id}`, tenant.id, tenantData(tenant), signal),
    send,
    offboard: async (tenant, signal) => {
      const key = `offboard-${tenant.id}`;
      const data = tenantData(tenant);
      const outcome = await announce('tenant.offboarded.v1', key, tenant.id, data, signal);
      if (outcome.kind === 'done') {
        announced.delete(key);
        announced.delete(`tenant-${tenant.id}`);
      }
      return outcome;
    },
    close: () => client.close(),
  };
}

/** What an answer means for the whole call; `split` is a refusal that does not say of which event. */
export type CallOutcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number }
  | { readonly kind: 'hold'; readonly reason: string }
  | { readonly kind: 'split'; readonly reason: string };

const TRY_LATER = new Set([408, 425, 429]);
const TOO_LARGE = 413;
const REFUSED = new Set([400, TOO_LARGE, 422]);
const HINTS: Readonly<Record<number, string>> = {
  401: 'check the credentials in spec.webhook.headers (WEBHOOK_HEADERS)',
  403: 'check the credentials in spec.webhook.headers (WEBHOOK_HEADERS)',
  404: 'check spec.webhook.url (WEBHOOK_URL)',
  410: 'the endpoint is retired, set another spec.webhook.url (WEBHOOK_URL)',
  415: 'the endpoint does not take CloudEvents batches',
};

/**
 * Reads the answer of a webhook receiver (facts 4.3, 5). Any 2xx is delivered. What no batch can mend
 * (credentials, a retired endpoint, a redirect, an unknown format) holds the destination, so that a
 * wrong URL never turns events into dead letters. `where` is the request's method and path.
 */
export function classifyAnswer(outcome: HttpOutcome, where: string, now: number): CallOutcome {
  if (outcome.kind === 'failed') {
    return { kind: outcome.permanent ? 'hold' : 'retry', reason: outcome.reason };
  }
  const { status } = outcome;
  if (isSuccess(status)) return { kind: 'delivered' };
  const reason = `HTTP ${where}: status ${status}`;
  if (TRY_LATER.has(status) || status >= 500) {
    const afterMs = retryAfterMs(outcome.headers['retry-after'], now);
    return { kind: 'retry', reason, ...(afterMs !== undefined && { afterMs }) };
  }
  if (REFUSED.has(status)) return { kind: 'split', reason };
  if (status < 400) return { kind: 'hold', reason: `${reason}: redirects are not followed` };
  const hint = HINTS[status];
  return { kind: 'hold', reason: hint === undefined ? reason : `${reason}: ${hint}` };
}

/** Whether the receiver said that the body was too large. */
export function isTooLarge(outcome: HttpOutcome): boolean {
  return outcome.kind === 'response' && outcome.status === TOO_LARGE;
}

/** The header that carries the signature (spec 5). */
export const SIGNATURE_HEADER = 'x-svc-signature';

/**
 * `t=<unix seconds>,v1=<hex>[,v1=<hex>…]`, one v1 for each secret, so that a receiver may hold the old
 * or the new one while they are rotated. Signed is `<t>.<raw body>` with HMAC-SHA256, the key being the
 * secret's text as it is; no spaces, as verifiers of this scheme refuse them (facts 2.7, 4.3).
 * Undefined when there is nothing to sign with. `now` is milliseconds since the epoch.
 */
export function signatureHeader(
  secrets: readonly Secret[],
  body: string,
  now: number,
): string | undefined {
  if (secrets.length === 0) return undefined;
  const timestamp = Math.floor(now / 1000);
  const signatures = secrets.map((secret) => {
    const hmac = createHmac('sha256', secret.reveal()).update(`${timestamp}.${body}`);
    return `v1=${hmac.digest('hex')}`;
  });
  return [`t=${timestamp}`, ...signatures].join(',');
}
