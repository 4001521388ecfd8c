import { matching } from '../../settings/parsers/scalars.ts';
import type { DestinationDefinition } from '../definition.ts';
import { metronomeAlerts } from './alerts.ts';
import { Metronome } from './metronome.ts';
import {
  METRONOME_VARIABLES,
  metronomeFromEnvironment,
  metronomeFromSpec,
  type MetronomeSettings,
  type MetronomeSpec,
} from './settings.ts';

/** Metronome, the usage-contract billing provider. */
export const metronome: DestinationDefinition<MetronomeSettings, MetronomeSpec> = {
  type: 'metronome',
  spellings: ['billing_b', 'metronome'],
  prefixes: ['BILLING_B_', 'METRONOME_'],
  variables: METRONOME_VARIABLES,
  inherits: ['currency'],
  customerId: {
    key: 'metronome-customer-id',
    parser: matching(
      /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
      'a Metronome customer id',
      'not a Metronome customer id',
      'give a Metronome customer id',
    ),
  },
  fromEnvironment: metronomeFromEnvironment,
  spec: {
    secretRefs: ({ apiTokenSecretRef, stripeLink }) => [
      apiTokenSecretRef,
      ...(stripeLink === undefined ? [] : [stripeLink.apiKeySecretRef]),
    ],
    translate: metronomeFromSpec,
  },
  create: (name, options, context) => new Metronome(name, options, context),
  alerts: metronomeAlerts,
};
