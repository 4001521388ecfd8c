import type { Registry } from 'prom-client';
import { errorText } from '../../model/error-text.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Delivery } from '../delivery.ts';
import { gaugesBy } from '../../telemetry/gauges.ts';

const POLL_EVERY_MS = 600_000;
/** Tenants whose invoices are queried at a destination in one poll. */
const TENANTS = 200;

/** Compares invoices with delivered usage in the background, and logs differences. */
export class InvoiceWatch {
  readonly #options;
  readonly #reported = new Map<string, string>();

  constructor(options: {
    readonly delivery: Pick<Delivery, 'statuses' | 'checkInvoices'>;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly registry: Registry;
  }) {
    this.#options = options;
    const current = () =>
      options.delivery
        .statuses()
        .flatMap(({ name, invoices }) =>
          invoices === undefined ? [] : [[name, invoices] as const],
        );
    const gauge = gaugesBy(options.registry, 'destination', current);
    gauge(
      'meterfeed_destination_invoice_mismatches',
      'Pairs of tenant and metric whose invoiced usage differs from the delivered usage',
      ({ differing }) => differing,
    );
    gauge(
      'meterfeed_destination_invoices_unanswered',
      'Tenants whose invoices could not be fetched from the destination',
      ({ unanswered }) => unanswered,
    );
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#checkAll(signal);
      await this.#options.clock.sleep(POLL_EVERY_MS, signal).catch(() => undefined);
    }
  }

  async #checkAll(signal: AbortSignal): Promise<void> {
    const { delivery, logger } = this.#options;
    for (const { name, suspended, bootstrapped } of delivery.statuses()) {
      if (signal.aborted || suspended || !bootstrapped) continue;
      try {
        const failed = await delivery.checkInvoices(name, TENANTS, signal);
        if (failed !== undefined) logger.warn(`[${name}] invoices: ${failed.message}`);
        this.#report(name);
      } catch (error) {
        if (signal.aborted) return;
        logger.warn(`[${name}] invoices could not be compared: ${errorText(error)}`);
      }
    }
  }

  #report(name: string): void {
    const { delivery, logger } = this.#options;
    const report = delivery.statuses().find((status) => status.name === name)?.invoices;
    const [first] = report?.examples ?? [];
    const text =
      first &&
      `${report?.differing} sums on invoices differ from what was delivered, such as ${first.metric} of ${first.tenant} by ${first.difference}: ${first.cause}`;
    if (text !== undefined && this.#reported.get(name) !== text) logger.warn(`[${name}] ${text}`);
    if (text === undefined) this.#reported.delete(name);
    else this.#reported.set(name, text);
  }
}
