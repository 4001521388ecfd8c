import type { DestinationDefinition } from '../definition.ts';
import {
  WEBHOOK_VARIABLES,
  webhookFromEnvironment,
  webhookFromSpec,
  type WebhookSettings,
  type WebhookSpec,
} from './settings.ts';
import { Webhook } from './webhook.ts';

/** CloudEvents batches, posted to a URL. */
export const webhook: DestinationDefinition<WebhookSettings, WebhookSpec> = {
  type: 'webhook',
  spellings: ['webhook'],
  // Other programs may well use variables that begin with WEBHOOK_.
  prefixes: [],
  variables: WEBHOOK_VARIABLES,
  inherits: [],
  fromEnvironment: webhookFromEnvironment,
  spec: {
    secretRefs: ({ secretRefs = [], headers = [] }) => [
      ...secretRefs,
      ...headers.flatMap(({ valueSecretRef }) => valueSecretRef ?? []),
    ],
    translate: webhookFromSpec,
  },
  forCluster: (options, source) => ({ ...options, source }),
  create: (name, options, context) => new Webhook(name, options, context),
};
