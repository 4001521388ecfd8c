import type { WebhookSettings } from '../../config/settings.ts';
import type { HttpOutcome } from '../../outbound/http-client.ts';
import { redactPath } from '../../outbound/redact.ts';
import type { UsageEvent } from '../../model/event.ts';
import { quote } from '../../model/validate-event.ts';
import type { DestinationContext } from '../context.ts';
import type { DeliveryOutcome, Destination, StepOutcome } from '../destination.ts';
import { classifyAnswer, isTooLarge } from './classify-answer.ts';
import {
  batchBody,
  CLOUD_EVENTS_BATCH,
  type LifecycleEvent,
  lifecycleCloudEvent,
  usageCloudEvent,
} from './cloud-event.ts';
import { catalogData, tenantData } from './lifecycle-data.ts';
import { SIGNATURE_HEADER, signatureHeader } from './signature.ts';

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
