import type { FakeResponse } from '../fake-server.ts';
import { invalid, missing, ok } from './answers.ts';
import { type Form, text } from './form.ts';
import { page, PAGING, unknownParameter } from './lists.ts';
import { nextId, type StripeState, type TaxId } from './state.ts';

/**
 * The formats that the stand-in checks
 * (https://docs.stripe.com/billing/customer/tax-ids#supported-tax-id).
 */
const FORMS: ReadonlyMap<string, RegExp> = new Map([
  ['eu_vat', /^(DE\d{9}|ATU\d{8}|(?!DE|AT)[A-Z]{2}[0-9A-Z+*]{2,12})$/],
  ['gb_vat', /^GB(\d{9}|\d{12}|GD\d{3}|HA\d{3})$/],
  ['no_vat', /^\d{9}MVA$/],
]);

export function createTaxId(state: StripeState, id: string, form: Form, at: number): FakeResponse {
  const customer = state.customers.get(id);
  if (customer === undefined || customer.deleted) return missing('customer', id);
  const unknown = unknownParameter(form, ['type', 'value']);
  if (unknown !== undefined) return unknown;
  const [type = '', value = ''] = [text(form, 'type'), text(form, 'value')];
  const expected = FORMS.get(type);
  if (expected === undefined) return invalid('Invalid type: must be one of …', undefined, 'type');
  if (!expected.test(value)) {
    return invalid(`Invalid value for ${type}.`, 'tax_id_invalid', 'value');
  }
  const taxId: TaxId = { id: nextId(state, 'txi'), created: Math.floor(at / 1000), type, value };
  customer.taxIds.push(taxId);
  return ok(show(id, taxId));
}

export function listTaxIds(state: StripeState, id: string, query: Form): FakeResponse {
  const customer = state.customers.get(id);
  if (customer === undefined) return missing('customer', id);
  const unknown = unknownParameter(query, PAGING);
  if (unknown !== undefined) return unknown;
  return page(`/v1/customers/${id}/tax_ids`, query, customer.taxIds, (taxId) => show(id, taxId));
}

function show(customer: string, taxId: TaxId): unknown {
  return {
    ...taxId,
    object: 'tax_id',
    customer,
    livemode: false,
    country: taxId.value.slice(0, 2),
  };
}
