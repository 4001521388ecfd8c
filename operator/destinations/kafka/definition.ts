import type { DestinationDefinition } from '../definition.ts';
import { Kafka } from './kafka.ts';
import {
  KAFKA_VARIABLES,
  kafkaFromEnvironment,
  kafkaFromSpec,
  type KafkaSettings,
  type KafkaSpec,
} from './settings.ts';

/** CloudEvents as records of a topic. */
export const kafka: DestinationDefinition<KafkaSettings, KafkaSpec> = {
  type: 'kafka',
  spellings: ['kafka'],
  // Kubernetes gives pods variables with the prefix KAFKA_ if a Service of that name exists in the
  // namespace.
  prefixes: [],
  variables: KAFKA_VARIABLES,
  inherits: [],
  fromEnvironment: kafkaFromEnvironment,
  spec: {
    secretRefs: ({ sasl, caSecretRef }) => [
      ...(sasl === undefined ? [] : [sasl.passwordSecretRef]),
      ...(caSecretRef === undefined ? [] : [caSecretRef]),
    ],
    translate: kafkaFromSpec,
  },
  forCluster: (options, source) => ({ ...options, source }),
  create: (name, options, context) => new Kafka(name, options, context),
};
