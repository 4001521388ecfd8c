import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import { findGoTool } from '../e2e/tools/go-tools.ts';

const cluster = useOwnTestCluster();
const run = promisify(execFile);
const CONFIG = fileURLToPath(new URL('.', import.meta.url));
const COMPONENTS = await readdir(join(CONFIG, 'components'));
const BASES = ['default', 'overlays/development', 'overlays/production'];

const EACH = BASES.flatMap((base) => [
  ...COMPONENTS.map((component): readonly [string, readonly string[]] => [base, [component]]),
  [base, COMPONENTS] as const,
]);

let directory = '';
let kubeScore = '';

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-components-'));
  kubeScore = await findGoTool('kube-score', () => undefined);
  await cluster.kubectl(['apply', '--kustomize', join(CONFIG, 'default')]);
  await cluster.kubectl(['apply', '--filename', '-'], PROMETHEUS_OPERATOR);
  const established = ['wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all'];
  await cluster.kubectl(established);
}, 120_000);

afterAll(() => rm(directory, { recursive: true, force: true }));

const rendered = new Map<string, Promise<string>>();

/** What `kubectl kustomize` makes of a base with components; each is made once. */
function render(base: string, components: readonly string[]): Promise<string> {
  const key = `${base} ${components.join()}`;
  const known = rendered.get(key) ?? kustomize(base, components);
  rendered.set(key, known);
  return known;
}

async function kustomize(base: string, components: readonly string[]): Promise<string> {
  const place = await mkdtemp(join(directory, 'base-'));
  const from = (path: string): string => relative(place, join(CONFIG, path));
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [from(base)],
    // A component that the base has already would be there twice.
    components: components
      .filter((name) => base !== 'overlays/production' || !IN_PRODUCTION.includes(name))
      .map((name) => from(`components/${name}`)),
  };
  await writeFile(join(place, 'kustomization.yaml'), JSON.stringify(kustomization));
  const options = { maxBuffer: 64 * 1024 * 1024 };
  return (await run(cluster.kubectlPath, ['kustomize', place], options)).stdout;
}

/** What a program says of its input, whatever its exit code. */
async function pipe(
  program: string,
  args: readonly string[],
  input: string,
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const child = spawn(program, args);
  child.stdin.end(input);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { stdout, stderr };
}

const IN_PRODUCTION = ['network-policy', 'larger-volume'];

describe.each(EACH)('%s with %j', (base, components) => {
  test('is accepted by the API server, under restricted pod security, without a warning', async () => {
    const manifests = await render(base, components);
    // Claims cannot be changed in place, so the StatefulSet that is there must not be compared with.
    const args = ['create', '--dry-run=server', '--filename', '-'];
    const kubectl = ['--kubeconfig', cluster.kubeconfigPath, ...args];
    const { stdout, stderr } = await pipe(cluster.kubectlPath, kubectl, manifests);
    expect(stdout + stderr).toContain('meterfeed');
    const complaints = stderr
      .split('\n')
      .filter((line) => line !== '' && !line.includes('already exists'));
    expect(complaints).toEqual([]);
  });

  test('has no critical finding of kube-score', async () => {
    const manifests = await render(base, components);
    const { stdout } = await pipe(kubeScore, ['score', '--output-format', 'ci', '-'], manifests);
    expect(stdout).toContain('[OK]');
    expect(stdout.split('\n').filter((line) => line.startsWith('[CRITICAL]'))).toEqual([]);
  });
});

interface Rendered {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly rules?: readonly { readonly resourceNames?: readonly string[] }[];
  readonly spec?: unknown;
}

/** The settings that the operator is given, and the Secrets of tenant clusters that it may read. */
async function tenantAccess(...components: readonly string[]) {
  const objects = parseAllDocuments(await render('default', components)).map(
    (document) => document.toJS() as Rendered,
  );
  const operator = objects.find(({ kind }) => kind === 'StatefulSet');
  const settings = objects.find(
    ({ kind, metadata }) =>
      kind === 'ConfigMap' && JSON.stringify(operator).includes(`"${metadata.name}"`),
  );
  const role = objects.find(({ metadata: { name } }) => name === 'meterfeed-tenant-kubeconfigs');
  return { settings: settings?.data, readable: role?.rules?.map((rule) => rule.resourceNames) };
}

test('the Secret of tenant kubeconfigs has one name, in the settings and in the rights', async () => {
  expect(await tenantAccess()).toEqual({
    settings: { LOG_FORMAT: 'json' },
    readable: [['svc-kubeconfig']],
  });
  expect(await tenantAccess('tenant-kubeconfig-secret')).toEqual({
    settings: { LOG_FORMAT: 'json', TENANT_KUBECONFIG_SECRET: 'metering-kubeconfig' },
    readable: [['metering-kubeconfig']],
  });
});

test('the admin fallback is a setting and no further right: those are given by namespace', async () => {
  const { settings, readable } = await tenantAccess('tenant-admin-fallback');
  expect(settings).toEqual({ LOG_FORMAT: 'json', TENANT_ADMIN_FALLBACK: 'true' });
  expect(readable).toEqual([['svc-kubeconfig']]);
  const role = join(CONFIG, 'components/tenant-admin-fallback/role.yaml');
  await cluster.kubectl(['create', 'namespace', 'vcluster-acme']);
  await cluster.kubectl(['apply', '--filename', role]);
  const operator = 'system:serviceaccount:meterfeed-system:meterfeed';
  const may = (name: string): Promise<boolean> => {
    const question = ['auth', 'can-i', 'get', `secret/${name}`, '--namespace', 'vcluster-acme'];
    return cluster.kubectl([...question, '--as', operator]).then(
      () => true,
      () => false,
    );
  };
  expect(await may('vc-acme')).toBe(true);
  expect(await may('vc-other')).toBe(false);
});

/** As far as the component's objects need it. */
const PROMETHEUS_OPERATOR = ['ServiceMonitor', 'PrometheusRule']
  .map((kind) => {
    const plural = `${kind.toLowerCase()}s`;
    const schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
    return JSON.stringify({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `${plural}.monitoring.coreos.com` },
      spec: {
        group: 'monitoring.coreos.com',
        scope: 'Namespaced',
        names: { kind, plural, singular: kind.toLowerCase() },
        versions: [
          { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } },
        ],
      },
    });
  })
  .join('\n---\n');
