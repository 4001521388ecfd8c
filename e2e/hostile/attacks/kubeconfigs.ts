import { parse } from 'yaml';
import {
  HOSTILE,
  type KubeconfigParts,
  kubeconfigText,
  tokenEnding,
  withImpossibleEnd,
} from '../../../operator/tenant-api/testing/kubeconfigs.ts';
import type { Random } from '../../faults/random.ts';
import { mutated } from './mutate.ts';
import { expandMarks, hostileText } from './values.ts';

/** What a kubeconfig needs to lead anywhere. */
export interface KubeconfigMeans {
  /** The run's own API server. */
  readonly server: string;
  readonly authority: string;
  readonly token: string;
  /** A certificate that the reader could show, PEM, and its key. */
  readonly certificate: string;
  readonly key: string;
}

/** Generates the content of a Secret's `config`. */
export interface KubeconfigAttack {
  readonly name: string;
  make(random: Random, means: KubeconfigMeans): string;
}

/** The kubeconfig of a run whose attacks are elsewhere. */
export function honestKubeconfig(means: KubeconfigMeans): string {
  return textOf(means, {});
}

/** Kubeconfigs of an owner who wants to do harm with them. */
export const KUBECONFIG_ATTACKS: readonly KubeconfigAttack[] = [
  {
    name: 'a credential that ends at an impossible time',
    make: (random, means) => textOf(means, { user: { token: tokenEnding(random.pick(ENDS)) } }),
  },
  {
    name: 'a certificate that ends at no time of a calendar',
    make: (_random, means) =>
      textOf(means, {
        user: {
          token: undefined,
          'client-certificate-data': base64(withImpossibleEnd(means.certificate)),
          'client-key-data': base64(means.key),
        },
      }),
  },
  {
    name: 'a field that does harm',
    make: (random, means) => {
      const { parts } = random.pick(HOSTILE);
      return textOf(
        means,
        parts({
          program: '/bin/true',
          listener: 'http://127.0.0.2:1',
          secretFile: '/etc/passwd',
        }),
      );
    },
  },
  {
    name: 'a server where none may be',
    make: (random, means) => textOf(means, { cluster: { server: random.pick(SERVERS) } }),
  },
  {
    name: 'a mutated kubeconfig',
    make: (random, means) => {
      const complete = parse(honestKubeconfig(means)) as Readonly<Record<string, unknown>>;
      return expandMarks(JSON.stringify(mutated(complete, random))).slice(0, MOST_BYTES);
    },
  },
  {
    name: 'a text that is no kubeconfig',
    make: (random) => random.pick(TEXTS),
  },
  {
    name: 'a name in a kubeconfig',
    make: (random, means) => {
      const name = hostileText(random);
      return textOf(means, {
        cluster: { 'tls-server-name': name },
        context: { namespace: name },
        user: { token: name },
      });
    },
  },
];

/** A Secret holds 1 MiB at most. */
const MOST_BYTES = 700_000;

const ENDS: readonly string[] = [
  '-9007199254740991',
  '9007199254740991',
  '8640000000000',
  '8640000000001',
  '-1e400',
  '1e400',
  '0',
  '-1',
  'null',
  '"2026"',
  '[]',
  '{"a":1}',
  '1',
  String(Math.floor(Date.now() / 1000) + 2),
];

const SERVERS: readonly string[] = [
  'https://169.254.169.254',
  'https://[::ffff:169.254.169.254]',
  'https://[::ffff:a9fe:a9fe]',
  'https://2852039166',
  'https://0251.0376.0251.0376',
  'https://169.254.169.254.nip.io',
  'https://metadata.google.internal',
  'https://kubernetes.default.svc',
  'https://localhost:1',
  'https://0.0.0.0:1',
  'https://[::]:1',
  'https://127.1:1',
  'https://user:password@127.0.0.1:1',
  'http://127.0.0.1:1',
  'file:///etc/passwd',
  'https://127.0.0.1:1/../../x?y#z',
  'https://127.0.0.1:99999',
  'https://honest-nodes.honest-nodes.svc',
  `https://${'a'.repeat(300)}.example`,
  'javascript:alert(1)',
  '',
];

const TEXTS: readonly string[] = [
  '',
  '\0\0\0',
  '---\n---\n---\n',
  'null',
  '[]',
  '{}',
  'a: &a [*a]',
  `a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c]`,
  '!!js/function "function(){}"',
  '!!binary x',
  '<<: {a: 1}',
  '['.repeat(30_000),
  '{a: '.repeat(20_000),
  '- '.repeat(30_000),
  `apiVersion: v1\nkind: Config\nusers: ${'x'.repeat(60_000)}`,
  'a: 1\n'.repeat(20_000),
  Array.from({ length: 10_000 }, (_, index) => `k${index}: v`).join('\n'),
  '? ? ? ? ? ? a',
  '"\\ud800"',
  '%YAML 9.9\n---\na: 1',
  'a: 0x8000000000000000000000000000',
  'a: 1e999999999',
  'a: 9999-99-99T99:99:99Z',
];

function textOf(means: KubeconfigMeans, parts: KubeconfigParts): string {
  return kubeconfigText({
    ...parts,
    cluster: {
      server: means.server,
      'certificate-authority-data': base64(means.authority),
      ...parts.cluster,
    },
    user: { token: means.token, ...parts.user },
  });
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
