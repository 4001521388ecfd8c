import type { ConfigurableDestination } from '../configurable-destination.ts';
import { list } from '../parsers/lists.ts';
import { choice, currency, matching, text } from '../parsers/scalars.ts';
import type { Setting, SettingTable } from './setting.ts';

const ADAPTERS_TEST = 'operator/settings/adapters.test.ts';
const BILLING_TEST = 'operator/app/billing-variables.test.ts';

const planCode = matching(
  /^[A-Za-z0-9._:-]{1,128}$/,
  'letters, digits, `.`, `_`, `:` and `-`',
  'not a plan code',
  'use letters, digits, ., _, : and -, at most 128',
);

/** Variables of all destinations. */
export const BILLING_VARIABLES = {
  ADAPTERS: {
    meaning:
      'The default counts only if its key is set. A BillingDestination of the same name replaces one.',
    parser: list(text(64)),
    fields: ['BillingDestination spec.type'],
    test: ADAPTERS_TEST,
  },
  DESTINATIONS_START_FROM: {
    meaning:
      'Where a new destination of ADAPTERS begins: with new events, or with the oldest in the ledger.',
    parser: choice('now', 'earliest'),
    default: 'now',
    fields: ['BillingDestination spec.startFrom'],
    test: ADAPTERS_TEST,
  },
  DESTINATIONS_PLAN_CHANGE: {
    meaning:
      'When destinations of ADAPTERS change a tenant’s plan: at once, or at the end of the billing period.',
    parser: choice('now', 'period-end'),
    default: 'now',
    fields: ['BillingDestination spec.planChange', 'TenantOverride spec.planChange'],
    test: ADAPTERS_TEST,
  },
  DESTINATIONS_MODE: {
    meaning: 'Whether destinations of ADAPTERS bill for real. A key of the other kind is refused.',
    parser: choice('test', 'live'),
    default: 'test',
    fields: ['BillingDestination spec.mode'],
    test: ADAPTERS_TEST,
  },
  ADAPTER: {
    meaning: 'Used only when ADAPTERS is empty.',
    parser: text(64),
    deprecated: 'use ADAPTERS',
    test: ADAPTERS_TEST,
  },
  SPOT_DISCOUNT_PERCENT: {
    meaning: 'Prices depend on `capacity_type`.',
    parser: text(64),
    deprecated: 'it has no effect; price capacity_type in the billing system and remove it',
    test: ADAPTERS_TEST,
  },
  DEFAULT_PLAN_CODE: {
    meaning: 'Plan of new tenants.',
    parser: planCode,
    default: 'tenant-standard',
    test: BILLING_TEST,
  },
  BILLING_CURRENCY: {
    meaning: 'Currency of the plan and of tenants without one.',
    parser: currency(),
    default: 'USD',
    test: BILLING_TEST,
  },
} as const satisfies SettingTable;

type Destinations = readonly ConfigurableDestination[];

/** {@link BILLING_VARIABLES} with the documentation of the existing destinations. */
export function describedBillingVariables(destinations: Destinations): Record<string, Setting> {
  const { ADAPTERS, DEFAULT_PLAN_CODE, BILLING_CURRENCY } = BILLING_VARIABLES;
  const listed = spellings(destinations, (spelling) => `\`${spelling}\``);
  const byDefault = destinations.find((one) => one.defaultWithVariable !== undefined);
  return {
    ...BILLING_VARIABLES,
    ADAPTERS: {
      ...ADAPTERS,
      meaning: `Destinations: ${listed}. ${ADAPTERS.meaning}`,
      ...(byDefault && { otherwise: `\`${byDefault.spellings[0]}\`` }),
    },
    DEFAULT_PLAN_CODE: { ...DEFAULT_PLAN_CODE, fields: fieldsOf(destinations, 'planCode') },
    BILLING_CURRENCY: { ...BILLING_CURRENCY, fields: fieldsOf(destinations, 'currency') },
  };
}

/**
 * All spellings, as in `one or the other, a third`. Types with a neutral spelling come first,
 * sorted by it.
 */
export function spellings(
  destinations: Destinations,
  shown: (spelling: string) => string = (spelling) => spelling,
): string {
  const [several, single] = [true, false].map((wanted) =>
    destinations.filter((destination) => destination.spellings.length > 1 === wanted),
  );
  return [
    ...(several ?? []).toSorted((a, b) => (a.spellings[0] < b.spellings[0] ? -1 : 1)),
    ...(single ?? []),
  ]
    .map((destination) => destination.spellings.map(shown).join(' or '))
    .join(', ');
}

function fieldsOf(destinations: Destinations, field: 'planCode' | 'currency'): readonly string[] {
  return destinations
    .filter(({ inherits }) => inherits.includes(field))
    .map(({ type }) => `BillingDestination spec.${type}.${field}`);
}
