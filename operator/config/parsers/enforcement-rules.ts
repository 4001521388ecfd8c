import type { BillingState } from '../settings.ts';
import { invalid, type Parser, valid } from './parser.ts';

const STATES: readonly BillingState[] = ['active', 'warning', 'delinquent', 'suspended'];
const TYPE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const MEND = 'write event.type=active, warning, delinquent or suspended';

/** `event.type=state,...` (spec 3). */
export function enforcementRules(): Parser<ReadonlyMap<string, BillingState>> {
  return {
    accepts: '`event.type=state,...`; `none` for no rule',
    parse(text) {
      const rules = new Map<string, BillingState>();
      if (text === 'none') return valid(rules);
      for (const item of text.split(',').map((part) => part.trim())) {
        const [type = '', word = '', ...rest] = item.split('=').map((part) => part.trim());
        const state = STATES.find((known) => known === word);
        if (rest.length > 0 || !TYPE.test(type) || state === undefined) {
          return invalid('not a rule', MEND, item);
        }
        if (rules.has(type)) return invalid('two rules for one event type', 'keep one', type);
        rules.set(type, state);
      }
      return valid(rules);
    },
  };
}
