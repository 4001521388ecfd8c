import * as fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  base64,
  HOSTILE,
  kubeconfigText,
  type TestCertificates,
  testCertificates,
  tokenEnding,
  withImpossibleEnd,
} from '../testing/kubeconfigs.ts';
import { Secret } from '../../model/secret.ts';
import { tenantCluster } from '../testing/tenant-clusters.ts';
import { planDial } from './dial-plan.ts';
import { createOpenKubeconfig } from './open-kubeconfig.ts';
import { readForeignKubeconfig } from './read-kubeconfig.ts';

let certificates: TestCertificates;
beforeAll(async () => {
  certificates = await testCertificates('localhost');
});

const MEANS = {
  program: '/tmp/canary-program',
  listener: 'http://192.0.2.1:9000',
  secretFile: '/var/run/secrets/kubernetes.io/serviceaccount/token',
};

function reasonOf(text: string): string {
  const read = readForeignKubeconfig(text);
  if (read.kind === 'refused') return read.reason;
  const plan = planDial(read.kubeconfig, {
    kind: 'tenant',
    namespace: 'tenant-a',
    name: 'a',
    allowedHosts: [],
    hostApi: '10.0.0.1:443',
    externalName: () => undefined,
  });
  return plan.kind === 'refused' ? plan.reason : `dialled: ${plan.server}`;
}

test.each(HOSTILE)(
  'a hostile kubeconfig is refused, and its field named: $name',
  ({ field, parts }) => {
    const reason = reasonOf(kubeconfigText(parts(MEANS)));
    expect(reason).toContain(field);
    expect(reason).not.toContain('dialled');
    for (const secret of Object.values(MEANS)) expect(reason).not.toContain(secret);
  },
);

test('a kubeconfig as vCluster writes it is accepted whole', () => {
  const { authority, client } = certificates;
  const read = readForeignKubeconfig(
    kubeconfigText({
      cluster: { 'certificate-authority-data': base64(authority), 'tls-server-name': 'kubernetes' },
      user: {
        'client-certificate-data': base64(client.certPem),
        'client-key-data': base64(client.keyPem),
      },
      context: { namespace: 'default' },
    }),
  );
  if (read.kind !== 'accepted') throw new Error(read.reason);
  const { kubeconfig } = read;
  expect(kubeconfig.server.href).toBe('https://localhost:8443/');
  expect(kubeconfig.certificateAuthority).toBe(authority);
  expect(kubeconfig.tlsServerName).toBe('kubernetes');
  expect(kubeconfig.token?.reveal()).toBe('reader-token');
  expect(kubeconfig.client?.certificate).toBe(client.certPem);
  expect(kubeconfig.client?.key.reveal()).toBe(client.keyPem);
  expect(kubeconfig.validUntil).toBeGreaterThan(Date.now());
  expect(JSON.stringify(kubeconfig)).not.toContain('PRIVATE');
  expect(JSON.stringify(kubeconfig)).not.toContain('reader-token');
});

test.each<[string, Parameters<typeof kubeconfigText>[0], string]>([
  ['no credential', { user: { token: undefined } }, 'users[0].user: no credential'],
  ['an empty token', { user: { token: '' } }, 'users[0].user: no credential'],
  ['a token of two lines', { user: { token: 'a\nb' } }, 'users[0].user.token: not printable ASCII'],
  ['a token that is a list', { user: { token: ['a'] } }, 'users[0].user.token: not text'],
  [
    'half a client certificate',
    { user: { 'client-key-data': base64('x') } },
    'users[0].user.client-key-data: not base64 of a PEM key',
  ],
  [
    'a certificate of nothing',
    { cluster: { 'certificate-authority-data': base64('-----BEGIN CERTIFICATE-----') } },
    'clusters[0].cluster.certificate-authority-data: not base64 of PEM certificates',
  ],
  [
    'a server with credentials',
    { cluster: { server: 'https://user:canary@localhost' } },
    'clusters[0].cluster.server: more than a host',
  ],
  ['no server', { cluster: { server: undefined } }, 'clusters[0].cluster.server: missing'],
  [
    'a certificate name that is an address',
    { cluster: { 'tls-server-name': 'a b' } },
    'clusters[0].cluster.tls-server-name: not a DNS name',
  ],
  ['no clusters', { file: { clusters: undefined } }, 'clusters: not a list'],
  ['a list for a file', { file: { clusters: [['x']] } }, 'clusters[0]: not a map of fields'],
  ['another context', { file: { 'current-context': 'x' } }, 'current-context: does not name'],
  ['another kind', { file: { kind: 'Pod' } }, 'kind: not "Config"'],
  ['settings of its own', { file: { preferences: { colors: true } } }, 'preferences: not accepted'],
  ['extensions', { cluster: { extensions: [] } }, 'clusters[0].cluster.extensions: not accepted'],
  ['a field that is a novel', { user: { ['x y'.repeat(99)]: 'x' } }, 'users[0].user.(unprintable)'],
])('what is wrong is reported by its field: %s', (_, parts, expected) => {
  const reason = reasonOf(kubeconfigText(parts));
  expect(reason).toContain(expected);
  expect(reason).not.toContain('canary');
});

test('what is not a kubeconfig at all is refused, and not quoted', () => {
  expect(reasonOf('')).toBe('not a kubeconfig');
  expect(reasonOf('- canary')).toBe('not a kubeconfig');
  expect(reasonOf('a: "canary')).toBe('line 1: not valid YAML: MISSING_CHAR');
  expect(reasonOf('x'.repeat(70_000))).toBe('too large: 70000 bytes; at most 65536');
});

describe('a credential whose end is no date', () => {
  test.each(['-9007199254740991', '9007199254740991', '8640000000001', '1e300', '-1e400'])(
    'a token with exp %s is refused',
    (exp) => {
      expect(reasonOf(kubeconfigText({ user: { token: tokenEnding(exp) } }))).toBe(
        'users[0].user.token: its end is no date; renew it',
      );
    },
  );

  test('a client certificate with an impossible notAfter is refused', () => {
    const { client } = certificates;
    const user = {
      'client-certificate-data': base64(withImpossibleEnd(client.certPem)),
      'client-key-data': base64(client.keyPem),
    };
    expect(reasonOf(kubeconfigText({ user }))).toBe(
      'users[0].user.client-certificate-data: its end is no date; renew it',
    );
  });

  test('whatever number it is, opening never throws, and an accepted end is a date', async () => {
    const numbers = fc.oneof(
      fc.double().map((number) => JSON.stringify(number)),
      fc.maxSafeInteger().map(String),
      fc.date({ noInvalidDate: true }).map((date) => `${date.getTime() / 1000}`),
      fc.integer({ min: -400, max: 400 }).map((exponent) => `1e${exponent}`),
    );
    const open = createOpenKubeconfig({
      allowedHosts: () => [],
      hostApi: '10.0.0.1:443',
      externalName: () => undefined,
      now: () => Date.UTC(2026, 0, 1),
    });
    await fc.assert(
      fc.asyncProperty(numbers, async (exp) => {
        const text = kubeconfigText({ user: { token: tokenEnding(exp) } });
        const opened = open(new Secret(text), tenantCluster());
        if (opened.kind === 'opened') await opened.connection.close();
        const validUntil = opened.kind === 'opened' ? opened.validUntil : undefined;
        const reason = opened.kind === 'refused' ? opened.reason : 'its end is no date';
        expect(reason).toMatch(/its end is no date|the credential ended at/);
        expect(() => new Date(validUntil ?? 0).toISOString()).not.toThrow();
      }),
    );
  });
});
