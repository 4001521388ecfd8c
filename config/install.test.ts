import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import { volumeNeeded } from '../operator/ledger/volume-needed.ts';

const cluster = useOwnTestCluster();

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const NAMESPACE = 'meterfeed-system';
const OVERLAYS = ['config/overlays/development', 'config/overlays/production'];

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec?: Readonly<Record<string, unknown>>;
}

interface PodTemplate {
  readonly metadata: object;
  readonly spec: Readonly<Record<string, unknown>>;
}

interface Probe {
  readonly httpGet: { readonly port: string };
}

interface Probed {
  readonly env: readonly { readonly name: string; readonly value?: string }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
}

describe('installing on a fresh cluster', () => {
  test('one command is enough, and a second one would change nothing', async () => {
    expect(await apply('.')).toContain('statefulset.apps/meterfeed created');
    expect(await cluster.kubectl(['diff', '--kustomize', ROOT])).toBe('');
  });

  test('the README’s commands install a production cluster, as they are printed', async () => {
    const kubectl = readmeCommands().filter((line) => line.startsWith('kubectl'));
    expect(kubectl).toHaveLength(3);
    // What the test before has installed is in the way of a StatefulSet with a larger claim.
    await cluster.kubectl(['delete', 'statefulset', 'meterfeed', '--namespace', NAMESPACE]);
    for (const line of kubectl) await shell(line);
    const image = '{.spec.template.spec.containers[0].image}';
    const of = ['statefulset', 'meterfeed', '--namespace', NAMESPACE, '--output'];
    expect(await cluster.kubectl(['get', ...of, `jsonpath=${image}`])).toBe(
      'registry.example.com/meterfeed:0.1.0',
    );
    const token = ['secret', 'meterfeed', '--namespace', NAMESPACE, '--output'];
    const text = await cluster.kubectl(['get', ...token, 'jsonpath={.data.API_TOKEN}']);
    expect(Buffer.from(text, 'base64').toString()).toMatch(/^[0-9a-f]{64}$/);
  });

  test('the samples are valid beside it', async () => {
    expect(await apply('config/samples')).toContain(
      'billingdestination.meterfeed.io/webhook created',
    );
  });

  test.each(OVERLAYS)('the API server accepts %s', async (overlay) => {
    // The size of a volume claim cannot be changed in place.
    const stateful = ['statefulset', 'meterfeed', '--namespace', 'meterfeed-system'];
    await cluster.kubectl(['delete', ...stateful, '--ignore-not-found']);
    expect(await apply(overlay)).toContain('statefulset.apps/meterfeed created');
  });

  test('overlays change what they say they change', async () => {
    expect(await storage('config/default')).toBe('5Gi');
    expect(await storage('config/overlays/development')).toBe('1Gi');
    expect(await storage('config/overlays/production')).toBe('40Gi');
    expect(await retention('config/overlays/production')).toBe('1488h');
    const production = await build('config/overlays/production');
    expect(production.map(({ kind }) => kind)).toContain('NetworkPolicy');
  });

  test('uninstalling takes the ledger, its credentials or the custom resources along', async () => {
    const kindsOf = async (directory: string): Promise<readonly string[]> =>
      (await build(directory)).map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    const removed = await kindsOf('config/uninstall');
    expect(
      removed.filter((object) => /^(Namespace|CustomRes|Persist|Secret)/.test(object)),
    ).toEqual([]);
    const stored = (await kindsOf('.')).filter((object) => !removed.includes(object));
    expect(stored).toEqual([
      'Namespace meterfeed-system',
      'CustomResourceDefinition billingdestinations.meterfeed.io',
      'CustomResourceDefinition meteringpolicies.meterfeed.io',
      'CustomResourceDefinition pricebooks.meterfeed.io',
      'CustomResourceDefinition tenantoverrides.meterfeed.io',
    ]);
  });

  test('the pod is one that the restricted pod security level admits', async () => {
    const template = await podTemplate();
    expect(await admit(template.spec)).toBe(201);
    const [container] = template.spec['containers'] as [Record<string, unknown>];
    const { securityContext: _, ...careless } = container;
    expect(await admit({ ...template.spec, containers: [careless] })).toBe(403);
    const { securityContext: __, ...rootPod } = template.spec;
    expect(await admit(rootPod)).toBe(403);
  });

  test('the probes ask at a port that no Service leads to', async () => {
    const template = await podTemplate();
    const [container] = template.spec['containers'] as [Probed];
    const { startupProbe, livenessProbe, readinessProbe } = container;
    for (const probe of [startupProbe, livenessProbe, readinessProbe]) {
      expect(probe.httpGet.port).toBe('probes');
    }
    const address = container.env.find(({ name }) => name === 'PROBE_ADDR');
    const port = container.ports.find(({ name }) => name === 'probes');
    expect(address?.value).toBe(`:${port?.containerPort}`);
    const targets = (await build('.'))
      .filter(({ kind }) => kind === 'Service')
      .flatMap(({ spec }) => spec?.['ports'] as { targetPort: string }[])
      .map(({ targetPort }) => targetPort);
    expect(targets).toStrictEqual(['http', 'http']);
  });

  test('everything namespaced is where its rights are, and nothing is left in no namespace', async () => {
    const homes = (await build('.'))
      .filter(({ metadata }) => metadata.namespace !== undefined)
      .map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`);
    expect(homes).toEqual([
      'ServiceAccount meterfeed-system/meterfeed',
      'Role default/meterfeed-events',
      'Role meterfeed-system/meterfeed',
      'RoleBinding default/meterfeed-events',
      'RoleBinding meterfeed-system/meterfeed',
      expect.stringMatching(/^ConfigMap meterfeed-system\/meterfeed-settings-[a-z0-9]{10}$/),
      'Service meterfeed-system/meterfeed',
      'Service meterfeed-system/meterfeed-pods',
      'StatefulSet meterfeed-system/meterfeed',
    ]);
  });
});

async function apply(directory: string): Promise<string> {
  return cluster.kubectl(['apply', '--kustomize', `${ROOT}${directory}`]);
}

async function build(directory: string): Promise<readonly Manifest[]> {
  const { stdout } = await promisify(execFile)(cluster.kubectlPath, [
    'kustomize',
    `${ROOT}${directory}`,
  ]);
  return parseAllDocuments(stdout).map((document) => document.toJS() as Manifest);
}

async function statefulSet(directory: string): Promise<Readonly<Record<string, unknown>>> {
  const found = (await build(directory)).find(({ kind }) => kind === 'StatefulSet');
  if (found?.spec === undefined) throw new Error(`${directory}: StatefulSet: missing`);
  return found.spec;
}

test('the production volume is too small for what its RETENTION keeps', async () => {
  const hours = Number.parseInt((await retention('config/overlays/production')) ?? '', 10);
  const gib = Number.parseInt((await storage('config/overlays/production')) ?? '', 10);
  const needed = volumeNeeded({
    eventsPerWindow: 10 * 100,
    windowMs: 60_000,
    retentionMs: hours * 3_600_000,
  });
  expect(hours / 24).toBe(62);
  expect(needed).toBeLessThan(gib * 1024 ** 3);
});

/** The commands of the README's first block about installing. */
function readmeCommands(): readonly string[] {
  const [, section = ''] = readFileSync(join(ROOT, 'README.md'), 'utf8').split('## Install it');
  return /```sh\n([^`]*)```/.exec(section)?.[1]?.trim().split('\n') ?? [];
}

/** Runs a command line in the project's root, with the test cluster's kubectl and credentials. */
async function shell(line: string): Promise<void> {
  const PATH = `${dirname(cluster.kubectlPath)}:${process.env['PATH']}`;
  const env = { ...process.env, PATH, KUBECONFIG: cluster.kubeconfigPath };
  await promisify(execFile)('bash', ['-o', 'pipefail', '-c', line], { cwd: ROOT, env });
}

async function retention(directory: string): Promise<string | undefined> {
  const settings = (await build(directory)).find(({ kind }) => kind === 'ConfigMap');
  return (settings as { data?: Record<string, string> } | undefined)?.data?.['RETENTION'];
}

async function storage(directory: string): Promise<string | undefined> {
  const spec = await statefulSet(directory);
  const claims = spec['volumeClaimTemplates'] as {
    spec: { resources: { requests: { storage: string } } };
  }[];
  return claims[0]?.spec.resources.requests.storage;
}

async function podTemplate(): Promise<PodTemplate> {
  const { template } = (await statefulSet('.')) as { template?: PodTemplate };
  if (template === undefined) throw new Error('StatefulSet: template: missing');
  return template;
}

/** What the API server says to a pod with this spec in the operator's namespace. */
async function admit(spec: object): Promise<number> {
  const path = '/api/v1/namespaces/meterfeed-system/pods?dryRun=All';
  const volumes = [
    { name: 'data', emptyDir: {} },
    { name: 'tmp', emptyDir: {} },
    { name: 'tokens', emptyDir: {} },
    { name: 'tenants', emptyDir: {} },
    { name: 'prometheus', emptyDir: {} },
  ];
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'admitted' },
    spec: { ...spec, volumes },
  };
  return (await cluster.request('POST', path, pod)).status;
}
