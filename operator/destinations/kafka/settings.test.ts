import { expect, test } from 'vitest';
import { type Effect, optionOf, testEffects } from '../../settings/testing/effects.ts';
import type { SecretReads } from '../../settings/spec-fields.ts';
import { Secret } from '../../model/secret.ts';
import { broker } from './broker-address.ts';
import { KAFKA_VARIABLES, kafkaFromSpec, type KafkaSpec } from './settings.ts';

const KAFKA = {
  ADAPTERS: 'kafka',
  KAFKA_BROKERS: 'kafka.example.com:9093',
  KAFKA_TOPIC: 'usage',
};
const LOGIN = { ...KAFKA, KAFKA_USERNAME: 'u', KAFKA_PASSWORD: 'p' };
const login = (change: object) => ({
  mechanism: 'SCRAM-SHA-512',
  username: 'u',
  password: 'p',
  ...change,
});

const EFFECTS: readonly Effect[] = [
  [
    'KAFKA_BROKERS',
    'a.example.com:9092,[2001:db8::1]:9093',
    optionOf('kafka', 'brokers'),
    [
      { host: 'a.example.com', port: 9092 },
      { host: '2001:db8::1', port: 9093 },
    ],
    KAFKA,
  ],
  ['KAFKA_TOPIC', 'billing.usage', optionOf('kafka', 'topic'), 'billing.usage', KAFKA],
  ['KAFKA_CONTENT_MODE', 'binary', optionOf('kafka', 'contentMode'), 'binary', KAFKA],
  ['KAFKA_TLS', 'false', optionOf('kafka', 'tls'), false, KAFKA],
  [
    'KAFKA_SASL_MECHANISM',
    'PLAIN',
    optionOf('kafka', 'sasl'),
    login({ mechanism: 'PLAIN' }),
    LOGIN,
  ],
  ['KAFKA_USERNAME', 'other', optionOf('kafka', 'sasl'), login({ username: 'other' }), LOGIN],
  ['KAFKA_PASSWORD', 'new', optionOf('kafka', 'sasl'), login({ password: 'new' }), LOGIN],
];

testEffects(EFFECTS, KAFKA_VARIABLES);

test.each([
  ['kafka', 'not a broker'],
  ['http://kafka:9092', 'not a broker'],
  ['user:password@kafka:9092', 'not a broker'],
  ['10.0.0:9092', 'not a broker'],
  ['2001:db8::1:9092', 'not a broker'],
  ['[10.0.0.1]:9092', 'not a broker'],
  ['kafka:0', 'not a port'],
  ['kafka:70000', 'not a port'],
  ['169.254.169.254:80', 'a link-local or cloud metadata address'],
  ['[fe80::1]:80', 'a link-local or cloud metadata address'],
  ['metadata.google.internal:80', 'a link-local or cloud metadata address'],
])('%s is no broker: %s', (text, what) => {
  expect(broker().parse(text)).toMatchObject({ kind: 'problem', what });
});

const DEFAULTS = { planCode: 'p', currency: 'EUR', clusterName: 'control-plane-1' };
const READS: SecretReads = new Map([
  [
    'kafka',
    {
      kind: 'found',
      values: new Map([
        ['password', new Secret('p')],
        ['ca', new Secret('-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n')],
      ]),
    },
  ],
]);
const translated = (spec: Partial<KafkaSpec>) =>
  kafkaFromSpec({ brokers: ['kafka:9093'], topic: 'usage', ...spec }, READS, DEFAULTS);
const sasl = { username: 'u', passwordSecretRef: { name: 'kafka', key: 'password' } };

test('a block means what the variables mean, credentials included', () => {
  const given = translated({ sasl, caSecretRef: { name: 'kafka', key: 'ca' } });
  expect(given).toMatchObject({
    kind: 'settings',
    settings: {
      brokers: [{ host: 'kafka', port: 9093 }],
      topic: 'usage',
      contentMode: 'structured',
      tls: true,
      sasl: { mechanism: 'SCRAM-SHA-512', username: 'u' },
      source: 'control-plane-1',
    },
  });
  if (given.kind !== 'settings') throw new Error('not translated');
  expect(given.settings.sasl?.password.reveal()).toBe('p');
  expect(given.settings.ca?.reveal()).toContain('MII');
});

test.each([
  [
    { sasl: { ...sasl, mechanism: 'PLAIN' as const }, tls: false },
    'spec.kafka.sasl: PLAIN without TLS sends the password readable for everybody',
  ],
  [{ brokers: ['169.254.169.254:9092'] }, 'spec.kafka.brokers[0]: a link-local or cloud metadata'],
  [
    { caSecretRef: { name: 'kafka', key: 'password' } },
    'spec.kafka.caSecretRef: not a usable credential: key "password" of Secret "kafka"; use certificates in PEM',
  ],
  [
    { sasl: { ...sasl, passwordSecretRef: { name: 'gone', key: 'password' } } },
    'spec.kafka.sasl.passwordSecretRef: no such Secret: "gone"',
  ],
])('a block that cannot be used is named: %j', (spec, message) => {
  expect(translated(spec)).toMatchObject({
    kind: 'invalid',
    message: expect.stringContaining(message) as string,
  });
});
