import { expect, test } from 'vitest';
import { Secret } from '../../model/secret.ts';
import { type DialPlan, planDial } from './dial-plan.ts';

function plan(
  server: string,
  allowedHosts: readonly string[] = [],
  tlsServerName?: string,
  externalName: (namespace: string, name: string) => string | undefined = () => undefined,
) {
  return planDial(
    {
      server: new URL(server),
      token: new Secret('x'),
      tlsServerName,
    },
    {
      kind: 'tenant',
      namespace: 'tenant-a',
      name: 'a',
      allowedHosts,
      hostApi: '10.0.0.1:443',
      externalName,
    },
  );
}

function shown(outcome: DialPlan): readonly [string, string | undefined] {
  return outcome.kind === 'dial'
    ? [outcome.server, outcome.tlsServerName]
    : [outcome.reason, undefined];
}

test.each([
  // vCluster's own form: the certificate of the Service is for localhost.
  ['https://localhost:8443', 'https://a.tenant-a.svc', 'localhost'],
  ['https://127.0.0.1:8443', 'https://a.tenant-a.svc', 'localhost'],
  ['https://[::1]:8443', 'https://a.tenant-a.svc', 'localhost'],
  ['https://a.tenant-a', 'https://a.tenant-a.svc', 'a.tenant-a'],
  ['https://A.tenant-a.svc:443/', 'https://a.tenant-a.svc', 'a.tenant-a.svc'],
  ['https://a.tenant-a.svc:8443', 'https://a.tenant-a.svc:8443', 'a.tenant-a.svc'],
  [
    'https://a.tenant-a.svc.cluster.local',
    'https://a.tenant-a.svc',
    'a.tenant-a.svc.cluster.local',
  ],
])('the tenant cluster’s own API cannot be reached as %s', (server, dialled, name) => {
  expect(shown(plan(server))).toEqual([dialled, name]);
  expect(shown(plan(server, [], 'kubernetes'))).toEqual([dialled, 'kubernetes']);
});

test.each([
  ['https://api.example.com:6443/path/', ['api.example.com'], 'https://api.example.com:6443/path'],
  ['https://10.20.0.9', ['10.20.0.0/16'], 'https://10.20.0.9'],
  ['https://10.20.0.9', ['10.20.0.9'], 'https://10.20.0.9'],
  ['https://[fd00::9]', ['fd00::/16'], 'https://[fd00::9]'],
  ['https://127.0.0.1:7000', ['127.0.0.1'], 'https://127.0.0.1:7000'],
  ['https://anything.example', ['10.20.0.0/16'], 'https://anything.example'],
])('what the administrator lists cannot be reached: %s', (server, hosts, dialled) => {
  expect(shown(plan(server, hosts))).toEqual([dialled, undefined]);
});

test.each([
  ['https://10.21.0.9', ['10.20.0.0/16'], /neither the tenant cluster’s own Service .* nor listed/],
  ['https://b.tenant-a.svc', [], /nor listed in spec\.tenantAPI\.allowedHosts/],
  ['https://a.tenant-a.svc.evil.example', [], /nor listed/],
  ['https://b.tenant-b.svc', ['10.0.0.0/8'], /nor listed/],
  ['https://b.tenant-b.svc.cluster.local', ['10.0.0.0/8'], /nor listed/],
  ['https://kubernetes', ['10.0.0.0/8'], /nor listed/],
  ['https://10.0.0.1', ['10.0.0.0/8'], /the host cluster’s API server/],
  ['https://169.254.169.254', ['0.0.0.0/0'], /link-local or cloud metadata/],
  ['https://metadata.google.internal', ['metadata.google.internal'], /cloud metadata/],
  ['https://0.0.0.0', [], /nor listed/],
])('a kubeconfig leads the operator to %s', (server, hosts, reason) => {
  expect(shown(plan(server, hosts))[0]).toMatch(reason);
});

test.each([
  ['https://[::ffff:10.0.0.1]', /the host cluster’s API server/],
  ['https://[::ffff:a00:1]', /the host cluster’s API server/],
  ['https://[::10.0.0.1]', /the host cluster’s API server/],
  ['https://[::ffff:0:10.0.0.1]', /the host cluster’s API server/],
  ['https://[64:ff9b::10.0.0.1]', /the host cluster’s API server/],
  ['https://[2002:a00:1::]', /the host cluster’s API server/],
  ['https://[64:ff9b::127.0.0.1]', /the operator’s own machine/],
  ['https://[2002:7f00:1::]', /the operator’s own machine/],
  ['https://[::ffff:0:169.254.169.254]', /link-local or cloud metadata/],
])('another spelling of a forbidden address is dialled: %s', (server, reason) => {
  const everything = ['10.0.0.0/8', '::/96', '::ffff:0:0:0/96', '64:ff9b::/96', '2002::/16'];
  expect(shown(plan(server, everything))[0]).toMatch(reason);
  const { hostname } = new URL(server);
  expect(problem('https://api.example.com', everything, hostname.slice(1, -1))).toMatch(reason);
});

test('an address that stands for one of the allowed network is allowed', () => {
  expect(shown(plan('https://[::ffff:10.20.0.9]', ['10.20.0.0/16']))[0]).toContain(
    'https://[::ffff',
  );
  expect(shown(plan('https://[::ffff:10.21.0.9]', ['10.20.0.0/16']))[0]).toMatch(/nor listed/);
});

function problem(server: string, hosts: readonly string[], address: string): string | undefined {
  const outcome = plan(server, hosts);
  if (outcome.kind !== 'dial') throw new Error(outcome.reason);
  return outcome.addressProblem(address);
}

test('the Service of a tenant cluster resolves to something else than a Service', () => {
  const service = 'https://localhost:8443';
  expect(problem(service, [], '10.96.4.4')).toBeUndefined();
  expect(problem(service, [], '127.0.0.1')).toContain('the operator’s own machine');
  expect(problem(service, [], '::1')).toContain('the operator’s own machine');
  expect(problem(service, ['127.0.0.0/8'], '127.0.0.1')).toBeUndefined();
  expect(problem(service, ['0.0.0.0/0'], '169.254.169.254')).toContain('link-local');
  expect(problem(service, [], '10.0.0.1')).toContain('the host cluster’s API server');
});

test.each([
  ['https://localhost:8443', []],
  ['https://a.tenant-a.svc', []],
  ['https://other.tenant-b.svc', ['other.tenant-b.svc']],
] as const)(
  'a Service of type ExternalName leads where nothing may be dialled: %s',
  (server, listed) => {
    const aliases: Record<string, string> = {};
    const outcome = plan(
      server,
      listed,
      undefined,
      (namespace, name) => aliases[`${namespace}/${name}`],
    );
    if (outcome.kind !== 'dial') throw new Error(outcome.reason);
    expect(outcome.addressProblem('10.1.2.3')).toBeUndefined();
    // Whoever may edit the Service changes it after the kubeconfig was accepted.
    aliases['tenant-a/a'] = 'vault.internal.example';
    aliases['tenant-b/other'] = 'vault.internal.example';
    expect(outcome.addressProblem('10.1.2.3')).toMatch(
      /^address not allowed: the Service is of type ExternalName and leads to "vault\.internal\.example"; list that in spec\.tenantAPI\.allowedHosts/,
    );
    const again = (...more: string[]) =>
      plan(
        server,
        [...listed, ...more],
        undefined,
        (namespace, name) => aliases[`${namespace}/${name}`],
      );
    expect(shown(again())[0]).toContain(
      'clusters[0].cluster.server: address not allowed: the Service',
    );
    for (const allowed of [again('vault.internal.example'), again('10.1.0.0/16')]) {
      if (allowed.kind !== 'dial') throw new Error(allowed.reason);
      expect(allowed.addressProblem('10.1.2.3')).toBeUndefined();
    }
  },
);

test('a name that is only allowed by network is dialled wherever it leads', () => {
  const named = 'https://api.example.com';
  expect(problem(named, ['10.20.0.0/16'], '10.20.1.1')).toBeUndefined();
  expect(problem(named, ['10.20.0.0/16'], '10.21.1.1')).toBe(
    'address not allowed: "api.example.com" leads to "10.21.1.1"; list it in spec.tenantAPI.allowedHosts of the MeteringPolicy',
  );
  expect(problem(named, ['api.example.com'], '93.184.216.34')).toBeUndefined();
});

test('an administrator may use private addresses, and nobody a metadata service', () => {
  const administrator = { kind: 'administrator' } as const;
  const dial = (server: string) =>
    shown(planDial({ server: new URL(server), token: new Secret('x') }, administrator))[0];
  expect(dial('https://127.0.0.1:6443')).toBe('https://127.0.0.1:6443');
  expect(dial('https://localhost:6443')).toBe('https://localhost:6443');
  expect(dial('https://169.254.169.254')).toContain('clusters[0].cluster.server: address not');
});
