import type { Registry } from 'prom-client';
import { errorText } from '../../model/error-text.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Delivery } from '../delivery.ts';
import { destinationGauge } from '../destination-gauge.ts';

const POLL_EVERY_MS = 600_000;
/** Tenants whose invoices are queried at a destination in one poll. */
const TENANTS = 200;

interface InvoiceWatchOptions {
  readonly delivery: Pick<Delivery, 'statuses' | 'checkInvoices'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: Registry;
}

/** Compares invoices with delivered usage in the background, and logs differences. */
export class InvoiceWatch {
  readonly #options: InvoiceWatchOptions;
  readonly #reported = new Map<string, string>();

  constructor(options: InvoiceWatchOptions) {
    this.#options = options;
    const current = () =>
      options.delivery
        .statuses()
        .flatMap(({ name, invoices }) =>
          invoices === undefined ? [] : [[name, invoices] as const],
        );
    destinationGauge(
      options.registry,
      {
        name: 'meterfeed_destination_invoice_mismatches',
        help: 'Pairs of tenant and metric whose invoiced usage differs from the delivered usage',
      },
      current,
      ({ differing }) => differing,
    );
    destinationGauge(
      options.registry,
      {
        name: 'meterfeed_destination_invoices_unanswered',
        help: 'Tenants whose invoices could not be fetched from the destination',
      },
      current,
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
