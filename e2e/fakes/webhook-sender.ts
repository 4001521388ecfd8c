import type { TestClock } from './test-clock.ts';
import { type WebhookDelivery, type WebhookMessage, WebhookOutbox } from './webhook-outbox.ts';

const STEP_MS = 300_000;

export interface WebhookSenderOptions {
  readonly clock: TestClock;
  /** Does the vendor's own work until a moment. */
  readonly turnTo: (at: number) => void;
  /** The vendor's messages so far, oldest first. */
  readonly notices: () => readonly WebhookMessage[];
  /** The vendor's schedule of retries (`WebhookOutbox`). */
  readonly waits: readonly number[];
  /** Headers of one attempt. */
  readonly sign: (body: string, message: WebhookMessage, at: number) => Record<string, string>;
  /** Called before the first attempt and after each. */
  readonly tried?: (message: WebhookMessage, isTaken: boolean) => void;
}

/** Sends a stand-in's messages to an endpoint, under the clock that a test turns. */
export interface WebhookSender {
  /** Sets the endpoint of further messages; undefined for none. */
  readonly connect: (url: string | undefined) => void;
  readonly deliveries: () => readonly WebhookDelivery[];
  /** Turns the clock like `turnTo`, and makes each attempt at its own time. */
  readonly turnTo: (at: number) => Promise<void>;
}

export function createWebhookSender(options: WebhookSenderOptions): WebhookSender {
  const { clock, notices, waits } = options;
  const outbox = new WebhookOutbox(waits);
  let endpoint: string | undefined;
  let taken = 0;

  const collect = (): void => {
    const all = notices();
    for (const message of all.slice(taken)) {
      if (endpoint === undefined) continue;
      outbox.add(message);
      options.tried?.(message, false);
    }
    taken = all.length;
  };
  const attempt = async (message: WebhookMessage): Promise<void> => {
    const at = clock.now();
    const body = JSON.stringify(message.payload);
    const headers = { 'content-type': 'application/json', ...options.sign(body, message, at) };
    const isTaken = endpoint !== undefined && (await post(endpoint, body, headers));
    outbox.tried(message, at, isTaken);
    options.tried?.(message, isTaken);
  };

  return {
    connect: (url) => {
      collect();
      endpoint = url;
    },
    deliveries: () => outbox.deliveries,
    turnTo: async (until) => {
      for (;;) {
        collect();
        const next = outbox.next();
        const now = clock.now();
        if (next !== undefined && next.nextAt <= now) {
          await attempt(next.message);
          continue;
        }
        if (now >= until) return;
        const step = (Math.floor(now / STEP_MS) + 1) * STEP_MS;
        options.turnTo(Math.min(until, step, next?.nextAt ?? until));
      }
    },
  };
}

async function post(
  url: string,
  body: string,
  headers: Readonly<Record<string, string>>,
): Promise<boolean> {
  try {
    const response = await fetch(url, { method: 'POST', body, headers, redirect: 'manual' });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}
