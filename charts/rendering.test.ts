import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { useTestCluster } from '../e2e/control-plane/test-cluster.ts';
import {
  identity,
  type KubernetesObject,
  kustomize,
  objectsOf,
} from '../scripts/charts/kustomize.ts';
import {
  CHANGING_COMPONENTS,
  CHARTS,
  componentFlag,
  generateCharts,
} from '../scripts/generate-charts.ts';
import { chart, COMPONENTS, flags, NAMESPACE, useHelm } from './testing/helm.ts';

const cluster = useTestCluster();
const helm = useHelm(cluster);

const KEEP = 'helm.sh/resource-policy';

/** By their identity, so that neither the order of objects nor of keys counts. */
function byIdentity(objects: readonly KubernetesObject[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(objects.map((object) => [identity(object), object]));
}

/** What the base has that Helm makes by itself or that the other chart has. */
function isElsewhere({ kind }: KubernetesObject): boolean {
  return kind === 'Namespace' || kind === 'CustomResourceDefinition';
}

async function expected(base: string, components: readonly string[]): Promise<unknown> {
  const objects = objectsOf(await kustomize(cluster.kubectlPath, base, components));
  return byIdentity(objects.filter((object) => !isElsewhere(object)));
}

test('the charts fall behind config/: run "npm run generate:charts" and commit', async () => {
  const files = await generateCharts(cluster.kubectlPath);
  for (const [path, content] of files) {
    expect([path, await readFile(join(CHARTS, path), 'utf8')]).toStrictEqual([path, content]);
  }
  const there = (await readdir(CHARTS, { recursive: true, withFileTypes: true }))
    .filter((file) => file.isFile() && file.parentPath.endsWith('/templates'))
    .map(({ parentPath, name }) => relative(CHARTS, join(parentPath, name)));
  const own = ['meterfeed/templates/NOTES.txt', 'meterfeed/templates/_helpers.tpl'];
  expect(there.filter((path) => !files.has(path)).toSorted()).toStrictEqual(own);
});

describe('what Helm renders differs from what kubectl kustomize does', () => {
  test('with default values: only the namespace is left to Helm', async () => {
    const all = objectsOf(await kustomize(cluster.kubectlPath, 'default'));
    const operator = objectsOf(await helm.render('meterfeed'));
    const definitions = objectsOf(await helm.render('meterfeed-crds', '--set', 'keep=false'));
    const namespace = all.filter(({ kind }) => kind === 'Namespace');
    expect(namespace.map(identity)).toStrictEqual([`Namespace ${NAMESPACE}`]);
    expect(byIdentity([...namespace, ...definitions, ...operator])).toStrictEqual(byIdentity(all));
    expect(operator.length + definitions.length + 1).toBe(all.length);
  });

  test('in custom resources, by more than the annotation that keeps them', async () => {
    const stored = objectsOf(await helm.render('meterfeed-crds'));
    const plain = objectsOf(await helm.render('meterfeed-crds', '--set', 'keep=false'));
    const without = stored.map(({ metadata, ...object }) => {
      const { annotations } = metadata as { annotations?: Readonly<Record<string, string>> };
      const { [KEEP]: policy, ...others } = annotations ?? {};
      expect(policy).toBe('keep');
      return { ...object, metadata: { ...metadata, annotations: others } };
    });
    expect(without).toStrictEqual(plain);
  });

  test.each(COMPONENTS.filter((name) => name !== 'keep-ledger'))('with %s', async (name) => {
    const values = CHANGING_COMPONENTS[name] ?? [`components.${componentFlag(name)}=true`];
    const rendered = objectsOf(await helm.render('meterfeed', ...flags(values)));
    expect(byIdentity(rendered)).toStrictEqual(await expected('default', [name]));
    expect(byIdentity(rendered)).not.toStrictEqual(await expected('default', []));
  });

  test('with values-production.yaml', async () => {
    const file = join(chart('meterfeed'), 'values-production.yaml');
    const rendered = objectsOf(await helm.render('meterfeed', '--values', file));
    expect(byIdentity(rendered)).toStrictEqual(await expected('overlays/production', []));
  });

  test('with settings of several kinds, down to the name of the ConfigMap', async () => {
    const values = ['settings.LOG_FORMAT=text', 'settings.LOG_LEVEL=debug'];
    const more = ['settings.RECONCILE_INTERVAL=10s', 'settings.COLLECTION_INTERVAL=10s'];
    const rendered = objectsOf(await helm.render('meterfeed', ...flags([...values, ...more])));
    const wanted = objectsOf(await kustomize(cluster.kubectlPath, 'overlays/development'));
    const settings = ({ kind }: KubernetesObject): boolean => kind === 'ConfigMap';
    expect(rendered.find(settings)).toStrictEqual(wanted.find(settings));
  });
});

describe('a value that nobody meant is taken', () => {
  test.each([
    ['an unknown one', ['storage.sise=1Gi'], /sise/],
    ['an unknown switch', ['components.enforcment=true'], /enforcment/],
    ['a size without a unit', ['storage.size=25'], /storage.*size/],
    [
      'a credential among the settings',
      ['settings.WEBHOOK_SECRET=abc'],
      /"WEBHOOK_SECRET": put it into the Secret "meterfeed"/,
    ],
    ['a variable in lower case', ['settings.log_level=debug'], /log_level/],
    ['a misspelt variable', ['settings.RETENSION=1488h'], /RETENSION/],
    [
      'several replicas without a database',
      ['replicas=2'],
      /replicas: .*LEDGER_URL.*database=true/,
    ],
  ])('%s', async (_, values, message) => {
    await expect(helm.render('meterfeed', ...flags(values))).rejects.toThrow(message);
  });

  test('a credential is repeated in the message', async () => {
    const failure = await helm
      .render('meterfeed', '--set-string', 'settings.API_TOKEN=canary-4711')
      .catch((error: unknown) =>
        error instanceof Error ? error.message.replace(/^Command failed.*\n/, '') : '',
      );
    expect(failure).toContain('"API_TOKEN"');
    expect(failure).not.toContain('canary');
  });
});

test('settings of the pod are lost, or replace what the base says', async () => {
  const rendered = objectsOf(
    await helm.render(
      'meterfeed',
      '--set-json',
      `tolerations=${JSON.stringify([{ key: 'system', operator: 'Exists' }])}`,
      ...flags([
        'image.repository=registry.example.com/meterfeed',
        `image.digest=sha256:${'ab'.repeat(32)}`,
        'imagePullSecrets[0].name=registry',
        'nodeSelector.pool=system',
        'priorityClassName=system-cluster-critical',
        'podLabels.team=billing',
        'podLabels.app\\.kubernetes\\.io/name=other',
        'storage.storageClassName=fast',
      ]),
    ),
  );
  expect(rendered.find(({ kind }) => kind === 'StatefulSet')).toMatchObject({
    spec: {
      template: {
        metadata: { labels: { 'app.kubernetes.io/name': 'meterfeed', team: 'billing' } },
        spec: {
          containers: [{ image: `registry.example.com/meterfeed@sha256:${'ab'.repeat(32)}` }],
          imagePullSecrets: [{ name: 'registry' }],
          nodeSelector: { pool: 'system' },
          tolerations: [{ key: 'system', operator: 'Exists' }],
          priorityClassName: 'system-cluster-critical',
        },
      },
      volumeClaimTemplates: [{ spec: { storageClassName: 'fast' } }],
    },
  });
});

test('a cluster that is too old takes the chart, and a version of a provider does not', async () => {
  await expect(helm.render('meterfeed', '--kube-version', '1.29.9')).rejects.toThrow(
    'chart requires kubeVersion: >=1.30.0-0',
  );
  const rendered = await helm.render('meterfeed', '--kube-version', 'v1.30.0-gke.100');
  expect(objectsOf(rendered).length).toBeGreaterThan(1);
});

test.each(['meterfeed', 'meterfeed-crds'])('%s cannot be packaged for a registry', async (name) => {
  expect(await helm.run('lint', '--strict', chart(name))).toContain('0 chart(s) failed');
  await helm.run('package', chart(name), '--destination', helm.directory());
  const packed = (await readdir(helm.directory())).filter((file) =>
    /^meterfeed(-crds)?-\d.*\.tgz$/.test(file),
  );
  expect(packed.some((file) => file.startsWith(`${name}-0`))).toBe(true);
});
