import { matching } from '../../settings/parsers/scalars.ts';
import type { DestinationDefinition } from '../definition.ts';
import { stripeAlerts } from './alerts.ts';
import {
  STRIPE_VARIABLES,
  stripeFromEnvironment,
  stripeFromSpec,
  type StripeSettings,
  type StripeSpec,
} from './settings.ts';
import { Stripe } from './stripe.ts';

/** Stripe, the card-payment billing provider. */
export const stripe: DestinationDefinition<StripeSettings, StripeSpec> = {
  type: 'stripe',
  spellings: ['billing_a', 'stripe'],
  prefixes: ['BILLING_A_', 'STRIPE_'],
  variables: STRIPE_VARIABLES,
  inherits: ['planCode', 'currency'],
  customerId: {
    key: 'stripe-customer-id',
    parser: matching(
      /^cus_[A-Za-z0-9]{1,251}$/,
      'a Stripe customer id',
      'not a Stripe customer id',
      'give a Stripe customer id',
    ),
  },
  fromEnvironment: stripeFromEnvironment,
  keyMode: ({ apiKey }) => {
    // https://docs.stripe.com/keys#api-key-prefixes: secret and restricted keys
    const [prefix, mode] = /^[sr]k_(live|test)_/.exec(apiKey.reveal()) ?? [];
    return mode === 'live' || mode === 'test' ? { mode, prefix: prefix ?? '' } : undefined;
  },
  late: ['next', 'credit'],
  spec: {
    secretRefs: ({ apiKeySecretRef }) => [apiKeySecretRef],
    translate: stripeFromSpec,
  },
  create: (name, options, context) => new Stripe(name, options, context),
  alerts: stripeAlerts,
};
