import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import { CHANGING_COMPONENTS, CHARTS, componentFlag } from '../scripts/generate-charts.ts';
import { chart, COMPONENTS, CONFIG, flags, NAMESPACE, useHelm } from './testing/helm.ts';

const cluster = useOwnTestCluster();
const helm = useHelm(cluster);

interface Operator {
  readonly metadata: { readonly uid: string };
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: readonly {
          readonly envFrom: readonly { readonly configMapRef?: { readonly name: string } }[];
        }[];
      };
    };
    readonly volumeClaimTemplates: readonly {
      readonly spec: { readonly resources: { readonly requests: { readonly storage: string } } };
    }[];
  };
}

async function operator(): Promise<Operator> {
  const object = ['get', 'statefulset', 'meterfeed', '--namespace', NAMESPACE, '--output', 'json'];
  return JSON.parse(await cluster.kubectl(object)) as Operator;
}

function settingsName({ spec }: Operator): string | undefined {
  return spec.template.spec.containers[0]?.envFrom[0]?.configMapRef?.name;
}

/** What `kubectl apply --dry-run=server` says of manifests on standard error. */
async function warnings(manifests: string): Promise<string> {
  const file = join(helm.directory(), 'manifests.yaml');
  await writeFile(file, manifests);
  const apply = ['apply', '--dry-run=server', '--filename', file];
  const kubectl = ['--kubeconfig', cluster.kubeconfigPath, ...apply];
  return (await promisify(execFile)(cluster.kubectlPath, kubectl)).stderr;
}

/** In this order: each test goes on with the cluster as the one before left it. */
describe('on a real API server', () => {
  test('what Helm renders is warned of or refused under restricted pod security', async () => {
    await cluster.kubectl(['apply', '--filename', join(CONFIG, 'default/namespace.yaml')]);
    const switches = COMPONENTS.filter(
      (name) => !(name in CHANGING_COMPONENTS) && name !== 'prometheus',
    ).map((name) => `components.${componentFlag(name)}=true`);
    const manifests = await helm.render('meterfeed', ...flags(switches));
    expect(await warnings(manifests)).toBe('');
    expect(await warnings(manifests.replace('runAsNonRoot: true', 'runAsNonRoot: false'))).toMatch(
      /would violate PodSecurity "restricted/,
    );
    expect(await warnings(await helm.render('meterfeed-crds'))).toBe('');
  });

  test('an installation by kubectl is replaced instead of taken over', async () => {
    await cluster.kubectl(['apply', '--kustomize', join(CHARTS, '..')]);
    const before = await operator();
    for (const name of ['meterfeed-crds', 'meterfeed']) {
      const release = ['install', name, chart(name), '--namespace', NAMESPACE];
      await expect(helm.run(...release)).rejects.toThrow(/invalid ownership metadata/);
      await helm.run(...release, '--take-ownership', '--server-side=false');
    }
    expect((await operator()).metadata.uid).toBe(before.metadata.uid);
  });

  test('an upgrade with another size fails, or touches the claim of the ledger', async () => {
    const before = await operator();
    const values = flags(['storage.size=25Gi', 'settings.REGION=eu-central-1']);
    const upgrade = ['upgrade', 'meterfeed', chart('meterfeed'), '--namespace', NAMESPACE];
    const notes = await helm.run(...upgrade, ...values);
    expect(notes).toMatch(/keeps its size, 5Gi: values say 25Gi/);
    const after = await operator();
    expect(after.metadata.uid).toBe(before.metadata.uid);
    expect(after.spec.volumeClaimTemplates).toStrictEqual(before.spec.volumeClaimTemplates);
    expect(after.spec.volumeClaimTemplates[0]?.spec.resources.requests.storage).toBe('5Gi');
    expect(settingsName(after)).not.toBe(settingsName(before));
    const settings = ['get', 'configmap', settingsName(after) ?? '', '--namespace', NAMESPACE];
    expect(await cluster.kubectl([...settings, '--output', 'jsonpath={.data.REGION}'])).toBe(
      'eu-central-1',
    );
  });

  test('a StatefulSet that was deleted for a larger volume comes back with the old size', async () => {
    const orphan = ['delete', 'statefulset', 'meterfeed', '--cascade=orphan'];
    await cluster.kubectl([...orphan, '--namespace', NAMESPACE, '--wait=false']);
    const finalizers = ['patch', 'statefulset', 'meterfeed', '--namespace', NAMESPACE];
    // The garbage collector, which there is none of here, would take the finalizer away.
    await cluster.kubectl([
      ...finalizers,
      '--type=merge',
      '--patch',
      '{"metadata":{"finalizers":[]}}',
    ]);
    const again = ['upgrade', 'meterfeed', chart('meterfeed'), '--namespace', NAMESPACE];
    await helm.run(...again, '--reuse-values');
    expect((await operator()).spec.volumeClaimTemplates).toMatchObject([
      { spec: { resources: { requests: { storage: '25Gi' } } } },
    ]);
  });

  test('uninstalling takes the namespace or the custom resources along', async () => {
    const noop = { type: 'noop' };
    const destination = { apiVersion: 'meterfeed.io/v1alpha1', kind: 'BillingDestination' };
    const object = { ...destination, metadata: { name: 'kept' }, spec: noop };
    await cluster.kubectl(['apply', '--filename', '-'], JSON.stringify(object));
    for (const name of ['meterfeed', 'meterfeed-crds']) {
      await helm.run('uninstall', name, '--namespace', NAMESPACE);
    }
    await expect(operator()).rejects.toThrow(/not found/);
    expect(await cluster.kubectl(['get', 'namespace', NAMESPACE, '--output', 'name'])).toBe(
      `namespace/${NAMESPACE}\n`,
    );
    expect(await cluster.kubectl(['get', 'billingdestinations', '--output', 'name'])).toBe(
      'billingdestination.meterfeed.io/kept\n',
    );
  });
});
