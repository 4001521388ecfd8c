import { text } from '../../settings/parsers/scalars.ts';
import type { DestinationDefinition } from '../definition.ts';
import { lagoAlerts } from './alerts.ts';
import { Lago } from './lago.ts';
import {
  LAGO_VARIABLES,
  lagoFromEnvironment,
  lagoFromSpec,
  type LagoSettings,
  type LagoSpec,
} from './settings.ts';

/** Lago, the open-source billing engine: the default destination. */
export const lago: DestinationDefinition<LagoSettings, LagoSpec> = {
  type: 'lago',
  spellings: ['billing_c', 'lago'],
  prefixes: ['BILLING_C_', 'LAGO_'],
  variables: LAGO_VARIABLES,
  inherits: ['planCode', 'currency'],
  customerId: {
    key: 'lago-customer-id',
    parser: text(255),
    subscription: { key: 'lago-subscription-id', parser: text(255) },
  },
  defaultWithVariable: 'BILLING_C_API_KEY',
  fromEnvironment: lagoFromEnvironment,
  late: ['next', 'credit'],
  spec: {
    secretRefs: ({ apiKeySecretRef }) => [apiKeySecretRef],
    translate: lagoFromSpec,
  },
  create: (name, options, context) => new Lago(name, options, context),
  alerts: lagoAlerts,
};
