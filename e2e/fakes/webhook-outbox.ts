/** A vendor's webhook message. */
export interface WebhookMessage {
  readonly id: string;
  readonly type: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly payload: unknown;
}

export interface WebhookDelivery {
  readonly message: WebhookMessage;
  readonly attempts: readonly { readonly at: number; readonly isTaken: boolean }[];
  /** The time of the next attempt; undefined after success or the last attempt. */
  readonly nextAt: number | undefined;
}

/**
 * Messages on their way to an endpoint. It has no I/O and no clock: the caller passes times and
 * results. `waits` are the milliseconds from each failed attempt to the next; after the last one a
 * message is given up.
 */
export class WebhookOutbox {
  readonly #waits: readonly number[];
  #deliveries: readonly WebhookDelivery[] = [];

  constructor(waits: readonly number[]) {
    this.#waits = waits;
  }

  /** All deliveries, oldest first, finished ones included. */
  get deliveries(): readonly WebhookDelivery[] {
    return this.#deliveries;
  }

  add(message: WebhookMessage): void {
    this.#deliveries = [...this.#deliveries, { message, attempts: [], nextAt: message.at }];
  }

  /** Returns the delivery with the next attempt, if any. */
  next(): (WebhookDelivery & { readonly nextAt: number }) | undefined {
    let first: (WebhookDelivery & { readonly nextAt: number }) | undefined;
    for (const { nextAt, ...rest } of this.#deliveries) {
      if (nextAt !== undefined && nextAt < (first?.nextAt ?? Infinity)) first = { ...rest, nextAt };
    }
    return first;
  }

  tried(message: WebhookMessage, at: number, isTaken: boolean): void {
    this.#deliveries = this.#deliveries.map((delivery) => {
      if (delivery.message !== message) return delivery;
      const attempts = [...delivery.attempts, { at, isTaken }];
      const wait = isTaken ? undefined : this.#waits[attempts.length - 1];
      return { message, attempts, nextAt: wait === undefined ? undefined : at + wait };
    });
  }
}

/** Returns waits that grow by a factor up to a longest one, while their sum is within a time. */
export function growingWaits(rule: {
  readonly firstMs: number;
  readonly factor: number;
  readonly longestMs: number;
  readonly withinMs: number;
}): readonly number[] {
  const waits: number[] = [];
  let total = 0;
  for (let wait = rule.firstMs; ; wait = Math.min(wait * rule.factor, rule.longestMs)) {
    total += wait;
    if (total > rule.withinMs) return waits;
    waits.push(wait);
  }
}
