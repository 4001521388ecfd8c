import type {
  DestinationDefaults,
  FromEnvironment,
  GivenEnvironment,
  VariableSet,
} from '../../settings/configurable-destination.ts';
import type { BillingDestinationSpec } from '../../settings/custom-resources.generated.ts';
import { secret } from '../../settings/parsers/credentials.ts';
import { list } from '../../settings/parsers/lists.ts';
import { boolean, choice, matching, text } from '../../settings/parsers/scalars.ts';
import {
  certificateField,
  credentialField,
  invalidField,
  invalidSpec,
  type SecretReads,
  type Translation,
} from '../../settings/spec-fields.ts';
import type { Secret } from '../../model/secret.ts';
import { broker, type BrokerAddress } from './broker-address.ts';

export const MECHANISMS = ['SCRAM-SHA-512', 'SCRAM-SHA-256', 'PLAIN'] as const;

export interface KafkaSettings {
  /** Brokers that name the cluster's brokers. The client uses the first one that answers. */
  readonly brokers: readonly BrokerAddress[];
  readonly topic: string;
  /** How an event becomes a record (docs/how-to/destinations/kafka.md#what-is-sent). */
  readonly contentMode: ContentMode;
  readonly tls: boolean;
  /** Certificates of authorities, PEM; they replace those of Node. */
  readonly ca?: Secret;
  /** Absent: the client does not log in. */
  readonly sasl?: KafkaLogin;
  /** The CloudEvents source, CLUSTER_NAME. */
  readonly source: string;
}

export type ContentMode = 'structured' | 'binary';

export interface KafkaLogin {
  readonly mechanism: (typeof MECHANISMS)[number];
  readonly username: string;
  readonly password: Secret;
}

export type KafkaSpec = NonNullable<BillingDestinationSpec['kafka']>;

const SETTINGS_TEST = 'operator/destinations/kafka/kafka.test.ts';

export const KAFKA_VARIABLES = {
  KAFKA_BROKERS: {
    meaning: 'Bootstrap brokers. Required by `kafka`.',
    parser: list(broker()),
    fields: ['BillingDestination spec.kafka.brokers'],
    test: SETTINGS_TEST,
  },
  KAFKA_TOPIC: {
    meaning: 'Existing topic for usage. Required by `kafka`.',
    parser: matching(
      /^(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}$/,
      'a topic',
      'not a topic',
      'use at most 249 letters, digits, dots, underscores and hyphens',
    ),
    fields: ['BillingDestination spec.kafka.topic'],
    test: SETTINGS_TEST,
  },
  KAFKA_CONTENT_MODE: {
    meaning: 'A record’s value: a whole CloudEvent, or the usage event with attributes in headers.',
    parser: choice('structured', 'binary'),
    default: 'structured',
    fields: ['BillingDestination spec.kafka.contentMode'],
    test: SETTINGS_TEST,
  },
  KAFKA_TLS: {
    meaning: 'Encrypt connections to brokers and verify certificates.',
    parser: boolean(),
    default: 'true',
    fields: ['BillingDestination spec.kafka.tls'],
    test: SETTINGS_TEST,
  },
  KAFKA_SASL_MECHANISM: {
    meaning: 'How to log in. `PLAIN` needs KAFKA_TLS.',
    parser: choice(...MECHANISMS),
    default: 'SCRAM-SHA-512',
    fields: ['BillingDestination spec.kafka.sasl.mechanism'],
    test: SETTINGS_TEST,
  },
  KAFKA_USERNAME: {
    meaning: 'User at the brokers. None: no login.',
    parser: text(256),
    fields: ['BillingDestination spec.kafka.sasl.username'],
    test: SETTINGS_TEST,
  },
  KAFKA_PASSWORD: {
    meaning: 'Its password, required with it.',
    parser: secret(),
    shown: 'masked',
    fields: ['BillingDestination spec.kafka.sasl.passwordSecretRef'],
    test: SETTINGS_TEST,
  },
} as const satisfies VariableSet;

export function kafkaFromEnvironment({
  defaults,
  valuesOf,
}: GivenEnvironment): FromEnvironment<KafkaSettings> {
  const values = valuesOf(KAFKA_VARIABLES);
  const { KAFKA_BROKERS: brokers = [], KAFKA_TOPIC: topic, KAFKA_USERNAME: username } = values;
  const { KAFKA_PASSWORD: password, KAFKA_SASL_MECHANISM: mechanism } = values;
  if (brokers.length === 0) return { kind: 'missing', variable: 'KAFKA_BROKERS' };
  if (topic === undefined) return { kind: 'missing', variable: 'KAFKA_TOPIC' };
  if (username !== undefined && password === undefined) {
    return { kind: 'missing', variable: 'KAFKA_PASSWORD' };
  }
  if (username === undefined && password !== undefined) {
    return { kind: 'missing', variable: 'KAFKA_USERNAME' };
  }
  const sasl =
    username === undefined || password === undefined
      ? undefined
      : { mechanism, username, password };
  const options = {
    brokers,
    topic,
    contentMode: values.KAFKA_CONTENT_MODE,
    tls: values.KAFKA_TLS,
    sasl,
    source: defaults.clusterName,
  };
  return { kind: 'options', options };
}

export function kafkaFromSpec(
  spec: KafkaSpec,
  reads: SecretReads,
  defaults: DestinationDefaults,
): Translation<KafkaSettings> {
  const brokers: BrokerAddress[] = [];
  for (const [index, address] of spec.brokers.entries()) {
    const parsed = broker().parse(address);
    if (parsed.kind === 'problem') {
      return invalidField(`spec.kafka.brokers[${index}]`, parsed, address);
    }
    brokers.push(parsed.value);
  }
  const { topic, contentMode = 'structured', tls = true, sasl } = spec;
  const password =
    sasl && credentialField('spec.kafka.sasl.passwordSecretRef', sasl.passwordSecretRef, reads);
  if (password?.kind === 'invalid') return password;
  const ca =
    spec.caSecretRef && certificateField('spec.kafka.caSecretRef', spec.caSecretRef, reads);
  if (ca?.kind === 'invalid') return ca;
  const login = sasl &&
    password && {
      mechanism: sasl.mechanism ?? 'SCRAM-SHA-512',
      username: sasl.username,
      password: password.value,
    };
  const settings = {
    brokers,
    topic,
    contentMode,
    tls,
    ca: ca?.value,
    sasl: login,
    source: defaults.clusterName,
  };
  const problem = loginProblem(settings);
  if (problem !== undefined) return invalidSpec('InvalidSpec', `spec.kafka.sasl: ${problem}`);
  return { kind: 'settings', settings };
}

/** Returns why settings would expose a password; undefined when they do not. */
export function loginProblem({ sasl, tls }: Pick<KafkaSettings, 'sasl' | 'tls'>) {
  if (sasl?.mechanism !== 'PLAIN' || tls) return undefined;
  return 'PLAIN without TLS sends the password readable for everybody: "PLAIN"; use tls (KAFKA_TLS) or SCRAM-SHA-512';
}
