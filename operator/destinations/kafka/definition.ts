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
  // A Service of the name in the operator's namespace gives it variables that begin with KAFKA_.
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
