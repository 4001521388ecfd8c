import type { DestinationType } from '../model/destination-type.ts';
import { invalid } from './parsers/parser.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import { problemText } from './problem-text.ts';
import type { Secret } from '../model/secret.ts';
import type { DestinationSettings, MetronomeSettings } from './settings.ts';
import type { Variable } from './variables/variable.ts';
import { type Values, VARIABLES, type VariableName } from './variables/variables.ts';

/** The destinations of ADAPTERS, complete with what they need. */
export interface Adapters {
  readonly destinations: readonly DestinationSettings[];
  readonly problems: readonly string[];
}

/** Both spellings of each billing system (design 1). */
const TYPES = new Map<string, DestinationType>([
  ['billing_a', 'stripe'],
  ['stripe', 'stripe'],
  ['billing_b', 'metronome'],
  ['metronome', 'metronome'],
  ['billing_c', 'lago'],
  ['lago', 'lago'],
  ['webhook', 'webhook'],
  ['noop', 'noop'],
]);

const KNOWN =
  'use billing_a or stripe, billing_b or metronome, billing_c or lago, webhook, noop, or none';

/** Base addresses that depend on the spelling: the neutral one stays unreachable until it is set (design 1). */
export const BASES = {
  billing_a: 'https://api.billing-a.invalid',
  stripe: 'https://api.stripe.com',
  billing_b: 'https://api.billing-b.invalid',
  metronome: 'https://api.metronome.com',
} as const;

const DEFAULT_DESTINATION = 'billing_c';

/**
 * ADAPTERS, else the deprecated ADAPTER, else `billing_c` if its key is set (design 7, "No
 * destination configured"). A destination that was named and lacks its key is a problem, unless the key is among the `faulty`
 * variables, whose own problem is reported already.
 */
export function adaptersFrom(values: Values, faulty: ReadonlySet<string> = new Set()): Adapters {
  const variable = values.ADAPTERS === undefined ? 'ADAPTER' : 'ADAPTERS';
  const names = chosenNames(values);
  const destinations: DestinationSettings[] = [];
  const problems: string[] = [];
  for (const name of names) {
    const type = TYPES.get(name);
    if (type === undefined) {
      problems.push(problemText(variable, invalid('unknown destination', KNOWN), name));
      continue;
    }
    const earlier = destinations.find((destination) => destination.type === type);
    if (earlier !== undefined) {
      const twice = `"${earlier.name}" is the same destination`;
      problems.push(problemText(variable, invalid(twice, 'name it once'), name));
      continue;
    }
    const built = BUILDERS[type](name, values);
    if (built.kind === 'missing' && !faulty.has(built.variable)) {
      problems.push(missingText(built.variable, name, variable));
    }
    if (built.kind === 'built') destinations.push(built.destination);
  }
  return { destinations, problems };
}

function chosenNames(values: Values): readonly string[] {
  if (values.ADAPTERS !== undefined) return values.ADAPTERS;
  if (values.ADAPTER !== undefined) return [values.ADAPTER];
  return values.BILLING_C_API_KEY === undefined ? [] : [DEFAULT_DESTINATION];
}

type Built =
  | { readonly kind: 'built'; readonly destination: DestinationSettings }
  | { readonly kind: 'missing'; readonly variable: VariableName };

type Builder = (name: string, values: Values) => Built;

const BUILDERS: Readonly<Record<DestinationType, Builder>> = {
  lago: (name, values) =>
    whenGiven(values.BILLING_C_API_KEY, 'BILLING_C_API_KEY', (apiKey) => ({
      ...common(name),
      type: 'lago',
      lago: {
        url: values.BILLING_C_API_URL,
        apiKey,
        planCode: values.DEFAULT_PLAN_CODE,
        currency: values.BILLING_CURRENCY,
      },
    })),

  stripe: (name, values) =>
    whenGiven(values.BILLING_A_API_KEY, 'BILLING_A_API_KEY', (apiKey) => ({
      ...common(name),
      type: 'stripe',
      stripe: {
        url: values.BILLING_A_API_BASE ?? (name === 'stripe' ? BASES.stripe : BASES.billing_a),
        apiKey,
        apiVersion: values.BILLING_A_API_VERSION,
        splitMetersBy: values.BILLING_A_SPLIT_METERS_BY,
        autoSubscribe: values.BILLING_A_AUTO_SUBSCRIBE,
        cancelOnRemove: values.BILLING_A_CANCEL_ON_REMOVE,
        maxRequestsPerSecond: values.BILLING_A_MAX_RPS,
        planCode: values.DEFAULT_PLAN_CODE,
        currency: values.BILLING_CURRENCY,
      },
    })),

  metronome: (name, values) => {
    const link = stripeLink(name, values);
    if (link === 'missing') return { kind: 'missing', variable: 'BILLING_A_API_KEY' };
    return whenGiven(values.BILLING_B_API_TOKEN, 'BILLING_B_API_TOKEN', (apiToken) => ({
      ...common(name),
      type: 'metronome',
      metronome: {
        url:
          values.BILLING_B_API_BASE ?? (name === 'metronome' ? BASES.metronome : BASES.billing_b),
        apiToken,
        currency: values.BILLING_CURRENCY,
        ...omitUndefined({ rateCard: values.BILLING_B_RATE_CARD, stripeLink: link }),
      },
    }));
  },

  webhook: (name, values) =>
    whenGiven(values.WEBHOOK_URL, 'WEBHOOK_URL', (url) => ({
      ...common(name),
      type: 'webhook',
      webhook: {
        url,
        secrets: values.WEBHOOK_SECRET ?? [],
        headers: values.WEBHOOK_HEADERS ?? new Map<string, Secret>(),
        source: values.CLUSTER_NAME,
      },
    })),

  noop: (name) => ({ kind: 'built', destination: { ...common(name), type: 'noop' } }),
};

function common(name: string) {
  return { name, suspend: false, startFrom: 'now' } as const;
}

/** Linking a tenant's customer to Stripe needs Stripe's key (spec 1.4). */
function stripeLink(
  name: string,
  values: Values,
): NonNullable<MetronomeSettings['stripeLink']> | 'missing' | undefined {
  if (!values.BILLING_B_STRIPE_LINK) return undefined;
  if (values.BILLING_A_API_KEY === undefined) return 'missing';
  return {
    url: values.BILLING_A_API_BASE ?? (name === 'metronome' ? BASES.stripe : BASES.billing_a),
    apiKey: values.BILLING_A_API_KEY,
    apiVersion: values.BILLING_A_API_VERSION,
    collectionMethod: values.BILLING_B_STRIPE_COLLECTION_METHOD,
  };
}

function whenGiven<T>(
  value: T | undefined,
  variable: VariableName,
  destination: (value: T) => DestinationSettings,
): Built {
  if (value === undefined) return { kind: 'missing', variable };
  return { kind: 'built', destination: destination(value) };
}

function missingText(variable: VariableName, destination: string, listedIn: string): string {
  const name = inSpellingOf(destination, variable);
  const mend = `set ${name}, or take the destination out of ${listedIn}`;
  return problemText(name, invalid('missing, and required by the destination', mend), destination);
}

/** `LAGO_API_KEY` for `lago`, `BILLING_C_API_KEY` for `billing_c`. */
function inSpellingOf(destination: string, name: VariableName): string {
  const variable: Variable = VARIABLES[name];
  return destination.startsWith('billing_') ? name : (variable.aliases?.[0] ?? name);
}
