import { quote } from '../../model/quote.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { FailedStep } from '../failed-step.ts';
import { textOf } from '../json.ts';
import type { StripeClient } from './stripe-client.ts';

const EU = 'AT|BE|BG|CY|CZ|DE|DK|EE|EL|ES|FI|FR|HR|HU|IE|IT|LT|LU|LV|MT|NL|PL|PT|RO|SE|SI|SK|XI';
/**
 * Types of tax numbers by form (https://docs.stripe.com/billing/customer/tax-ids#supported-tax-id).
 */
const TYPES: readonly (readonly [RegExp, type: string])[] = [
  [new RegExp(`^(${EU})[0-9A-Z+*]{2,12}$`), 'eu_vat'],
  [/^GB(\d{9}|\d{12}|GD\d{3}|HA\d{3})$/, 'gb_vat'],
  [/^\d{9}MVA$/, 'no_vat'],
];

/**
 * Adds the tax number of a tenant to its customer. Stripe requires the type of a number. A number
 * without a recognisable type, or one that Stripe refuses, is left to a person; neither prevents
 * the customer.
 */
export class StripeTaxIds {
  readonly #client: StripeClient;
  readonly #logger: Logger;
  /** The last processed number of each customer. */
  readonly #settled = new Map<string, string>();

  constructor(client: StripeClient, logger: Logger) {
    this.#client = client;
    this.#logger = logger;
  }

  /** Adds the number where the customer lacks it, and keeps its other numbers. */
  async ensure(
    { id: tenant, billing }: Tenant,
    customer: string,
    signal: AbortSignal,
  ): Promise<FailedStep | undefined> {
    const value = billing?.taxId;
    if (value === undefined || this.#settled.get(customer) === value) return undefined;
    const problem = await this.#add(value, customer, signal);
    if (problem !== undefined && problem.kind === 'retry') return problem;
    this.#settled.set(customer, value);
    if (problem !== undefined) {
      this.#logger.warn(
        `[bootstrap] enter the tax number of tenant ${tenant} at Stripe: ${quote(value)}: ${problem.reason}`,
      );
    }
    return undefined;
  }

  async #add(written: string, customer: string, signal: AbortSignal) {
    const value = bare(written);
    const type = TYPES.find(([form]) => form.test(value))?.[1];
    if (type === undefined) {
      return { kind: 'rejected', reason: 'its form does not show its type' } as const;
    }
    const path = `/v1/customers/${encodeURIComponent(customer)}/tax_ids`;
    const list = await this.#client.list(path, {}, signal);
    if (list.kind !== 'list') return list;
    if (list.items.some((item) => bare(textOf(item, 'value') ?? '') === value)) return undefined;
    const answer = await this.#client.create(path, { type, value }, signal);
    return answer.kind === 'ok' ? undefined : answer;
  }
}

/** Removes the characters that people write into numbers for legibility. */
function bare(value: string): string {
  return value.toUpperCase().replaceAll(/[\s.-]/g, '');
}
