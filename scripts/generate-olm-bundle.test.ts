import { execFile } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { useTestCluster } from '../e2e/control-plane/test-cluster.ts';
import { findGoTool } from '../e2e/tools/go-tools.ts';
import { type KubernetesObject, kustomize, objectsOf } from './charts/kustomize.ts';
import { generateOlmBundle, OLM_BUNDLE } from './generate-olm-bundle.ts';
import { BY_HAND, rightsOf } from './olm/rights.ts';

const run = promisify(execFile);
const cluster = useTestCluster();

const SERVICE_VERSION = 'manifests/meterfeed.clusterserviceversion.yaml';
const IMAGE = `registry.example.com/meterfeed@sha256:${'5'.repeat(64)}`;
/** Separate from the namespace of the suites that install. */
const NAMESPACE = 'olm-bundle';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

interface Permissions {
  readonly serviceAccountName: string;
  readonly rules: readonly Rule[];
}

interface Variable {
  readonly name: string;
  readonly value?: string;
}

interface Pod {
  readonly metadata: unknown;
  readonly spec: {
    readonly containers: readonly [
      { readonly env: readonly Variable[]; readonly envFrom: readonly object[] },
    ];
    readonly volumes: readonly { readonly name: string }[];
  };
}

interface ServiceVersion {
  readonly metadata: { readonly annotations: Readonly<Record<string, string>> };
  readonly spec: {
    readonly install: {
      readonly spec: {
        readonly clusterPermissions: readonly Permissions[];
        readonly permissions: readonly Permissions[];
        readonly deployments: readonly [
          { readonly name: string; readonly spec: { readonly template: Pod } },
        ];
      };
    };
  };
}

let directory = '';
let verify = '';
let service: ServiceVersion;
let base: readonly KubernetesObject[] = [];
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-olm-'));
  verify = await findGoTool('operator-verify', () => undefined);
  service = parse(await readFile(join(OLM_BUNDLE, SERVICE_VERSION), 'utf8')) as ServiceVersion;
  base = objectsOf(await kustomize(cluster.kubectlPath, 'default'));
}, 15 * 60_000);
afterAll(() => rm(directory, { recursive: true, force: true }));

/** Messages of the Operator Framework's validator about a bundle; empty if it has none. */
async function complaints(bundle: string): Promise<string> {
  const checks = ['--operatorhub_validate', '--object_validate'];
  const { stdout, stderr } = await run(verify, ['manifests', ...checks, bundle]);
  const lines = (stdout + stderr).split('\n');
  // It reports that the checks of OperatorHub.io have a new name in its library, which the program
  // does not call yet.
  return lines.filter((line) => !/"operatorhub\\?" validator is deprecated/.test(line)).join('\n');
}

const objectOf = (kind: string): KubernetesObject => {
  const found = base.find((object) => object.kind === kind);
  if (found === undefined) throw new Error(`the base: no ${kind}`);
  return found;
};

test('the bundle falls behind config/: run "npm run generate:olm" and commit', async () => {
  const files = await generateOlmBundle(cluster.kubectlPath);
  for (const [path, content] of files) {
    expect([path, await readFile(join(OLM_BUNDLE, path), 'utf8')]).toStrictEqual([path, content]);
  }
  const folders = ['manifests', 'metadata'];
  const there = await Promise.all(
    folders.map(async (folder) =>
      (await readdir(join(OLM_BUNDLE, folder))).map((name) => `${folder}/${name}`),
    ),
  );
  expect(there.flat().toSorted()).toStrictEqual([...files.keys()].toSorted());
});

describe('a catalogue refuses the bundle', () => {
  test('by the rules of the Operator Framework and of OperatorHub.io, or warns of it', async () => {
    expect(await complaints(OLM_BUNDLE)).toBe('');
  });

  test('and nobody would notice', async () => {
    const broken = join(directory, 'broken');
    await cp(OLM_BUNDLE, broken, { recursive: true });
    await rm(join(broken, 'manifests/pricebooks.meterfeed.io.customresourcedefinition.yaml'));
    const annotations = { ...service.metadata.annotations, categories: 'Invoices' };
    await writeFile(
      join(broken, SERVICE_VERSION),
      stringify({ ...service, metadata: { ...service.metadata, annotations } }),
    );
    const stated = await complaints(broken);
    expect(stated).toMatch(/owned CRD .*PriceBook.* not found in bundle/);
    expect(stated).toMatch(/"Invoices.*" is not in the set of standard categories/);
  });
});

describe('what is installed by it differs from what kubectl installs', () => {
  test('in the pod: by more than the settings and the claim of the ledger', () => {
    const { template } = service.spec.install.spec.deployments[0].spec;
    const { template: wanted } = objectOf('StatefulSet')['spec'] as { readonly template: Pod };
    const settings = objectOf('ConfigMap')['data'] as Readonly<Record<string, string>>;
    expect(Object.keys(settings)).not.toHaveLength(0);
    const [container] = wanted.spec.containers;
    expect(template).toStrictEqual({
      ...wanted,
      spec: {
        ...wanted.spec,
        containers: [
          {
            ...container,
            env: [
              ...container.env,
              ...Object.entries(settings).map(([name, value]) => ({ name, value })),
            ],
            envFrom: [{ secretRef: { name: 'meterfeed', optional: true } }],
          },
        ],
        volumes: [
          ...wanted.spec.volumes,
          { name: 'data', persistentVolumeClaim: { claimName: 'data-meterfeed-0' } },
        ],
      },
    });
  });

  test('in rights: Secrets of others could be read, or something that is needed cannot', () => {
    const { clusterPermissions, permissions } = service.spec.install.spec;
    const rulesOf = (given: readonly Permissions[]): readonly Rule[] => {
      expect(given.map(({ serviceAccountName }) => serviceAccountName)).toEqual(['meterfeed']);
      return given.flatMap(({ rules }) => rules);
    };
    const own = rulesOf(permissions);
    const all = rulesOf(clusterPermissions);
    const roles = base.filter(({ kind }) => kind === 'ClusterRole' || kind === 'Role');
    const aggregated = new Set(['meterfeed-viewer', 'meterfeed-editor']);
    const rules = (kind: string, namespace?: string): readonly Rule[] =>
      roles
        .filter(({ kind: of, metadata }) => of === kind && metadata.namespace === namespace)
        .filter(({ metadata }) => !aggregated.has(metadata.name))
        .flatMap((role) => role['rules'] as readonly Rule[]);
    const texts = (some: readonly Rule[]) => some.map((rule) => JSON.stringify(rule)).toSorted();
    expect(texts(all)).toStrictEqual(texts(rules('ClusterRole')));
    expect(texts(own)).toStrictEqual(texts(rules('Role', 'meterfeed-system')));
    const secrets = (some: readonly Rule[]) =>
      some.filter(({ resources }) => resources.includes('secrets')).flatMap(({ verbs }) => verbs);
    expect(secrets(own)).toEqual(['get']);
    // The rights with resource names: only a list or a watch of that name passes.
    expect(secrets(all)).toEqual(['list', 'watch']);
    const elsewhere = roles.filter(
      ({ kind, metadata }) => kind === 'Role' && metadata.namespace !== 'meterfeed-system',
    );
    expect(
      elsewhere.map((role) => `Role ${role.metadata.namespace}/${role.metadata.name}`),
    ).toEqual(BY_HAND);
  });

  test('by a right in a namespace of others that is left out without a word', () => {
    const metadata = { name: 'more', namespace: 'kube-system' };
    const role = { kind: 'Role', metadata, rules: [] };
    const binding = {
      kind: 'RoleBinding',
      metadata,
      roleRef: { kind: 'Role', name: 'more' },
      subjects: [{ kind: 'ServiceAccount', name: 'meterfeed', namespace: 'meterfeed-system' }],
    };
    const rights = () => rightsOf([role, binding], 'meterfeed', 'meterfeed-system');
    expect(rights).toThrow('no rights in another namespace: "Role kube-system/more"');
  });
});

test('an API server refuses or warns of what is in it, in the namespace that it suggests', async () => {
  const { annotations } = service.metadata;
  const suggested = JSON.parse(
    annotations['operatorframework.io/suggested-namespace-template'] ?? '',
  ) as KubernetesObject;
  const namespace = { ...suggested, metadata: { ...suggested.metadata, name: NAMESPACE } };
  await cluster.kubectl(['apply', '--filename', await written('namespace', [namespace])]);
  const examples = JSON.parse(annotations['alm-examples'] ?? '') as readonly KubernetesObject[];
  expect(new Set(examples.map(({ kind }) => kind)).size).toBe(4);
  const [{ name, spec }] = service.spec.install.spec.deployments;
  const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name }, spec };
  const others = (await readdir(join(OLM_BUNDLE, 'manifests')))
    .map((file) => `manifests/${file}`)
    .filter((file) => file !== SERVICE_VERSION)
    .map((file) => join(OLM_BUNDLE, file));
  const pod = JSON.stringify(deployment);
  const files = [...others, await written('operator', [deployment])];
  expect(await warnings(files)).toBe('');
  const open = JSON.parse(pod.replace('"runAsNonRoot":true', '"runAsNonRoot":false'));
  expect(await warnings([await written('open', [open])])).toMatch(/would violate PodSecurity/);
});

/** Standard error of a dry run on the API server. Rejects if the server refuses. */
async function warnings(files: readonly string[]): Promise<string> {
  const named = files.flatMap((file) => ['--filename', file]);
  const apply = ['apply', '--dry-run=server', '--validate=strict', '--namespace', NAMESPACE];
  const kubectl = ['--kubeconfig', cluster.kubeconfigPath, ...apply, ...named];
  const { stderr } = await run(cluster.kubectlPath, kubectl);
  // Other suites install resources on this API server by Helm, without kubectl's own annotation.
  return stderr.replaceAll(
    /^Warning: .* is missing the kubectl\.kubernetes\.io\/last-applied.*\n/gm,
    '',
  );
}

async function written(name: string, objects: readonly object[]): Promise<string> {
  const file = join(directory, `${name}.yaml`);
  await writeFile(file, objects.map((object) => `---\n${stringify(object)}`).join(''));
  return file;
}

describe('a release’s bundle', () => {
  test('names an image that can be exchanged', async () => {
    await expect(generateOlmBundle(cluster.kubectlPath, 'meterfeed:0.1.0')).rejects.toThrow(
      'image: "meterfeed:0.1.0": is not pinned',
    );
    const pinned = await generateOlmBundle(cluster.kubectlPath, IMAGE);
    const committed = await generateOlmBundle(cluster.kubectlPath);
    const text = pinned.get(SERVICE_VERSION) ?? '';
    const { version } = JSON.parse(
      await readFile(join(import.meta.dirname, '../package.json'), 'utf8'),
    ) as { readonly version: string };
    expect(text.split(IMAGE)).toHaveLength(3);
    expect(text.replaceAll(IMAGE, `meterfeed:${version}`)).toBe(committed.get(SERVICE_VERSION));
  });
});
