import { isRecord } from '../../model/is-record.ts';
import { fieldItems } from './lists.ts';
import { invalid, type Parser, valid } from './parser.ts';

/** A tenant's billing states, least severe first (docs/how-to/enforcement.md#states). */
export const BILLING_STATES = ['active', 'warning', 'delinquent', 'suspended'] as const;
export type BillingState = (typeof BILLING_STATES)[number];

const EVENT_TYPE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const FIX_RULE = 'write event.type=active, warning, delinquent or suspended';

/** `event.type=state,...`; in fields a list of both (docs/how-to/enforcement.md#rules). */
export function enforcementRules(): Parser<ReadonlyMap<string, BillingState>> {
  return {
    accepts: 'list of `event.type=state`',
    parse(text) {
      const rules = new Map<string, BillingState>();
      if (text === 'none') return valid(rules);
      for (const item of text.split(',').map((part) => part.trim())) {
        const [type = '', word = '', ...rest] = item.split('=').map((part) => part.trim());
        const state = BILLING_STATES.find((known) => known === word);
        if (rest.length > 0 || !EVENT_TYPE.test(type) || state === undefined) {
          return invalid('not a rule', FIX_RULE, item);
        }
        if (rules.has(type)) return invalid('two rules for one event type', 'keep one', type);
        rules.set(type, state);
      }
      return valid(rules);
    },
    field(value) {
      const rules = fieldItems(value, FIELD_RULE);
      return rules.kind === 'problem' ? rules : valid(new Map(rules.value));
    },
  };
}

const FIELD_RULE: Parser<readonly [event: string, state: BillingState]> = {
  accepts: '',
  parse: () => invalid('not a rule', 'give event and state'),
  field(value) {
    const { event, state: word } = isRecord(value) ? value : {};
    const state = BILLING_STATES.find((known) => known === word);
    return state === undefined ? this.parse('') : valid([String(event), state]);
  },
};
