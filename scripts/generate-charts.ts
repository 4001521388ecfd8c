import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { stringify } from 'yaml';
import { findBinaries } from '../e2e/control-plane/binaries.ts';
import { variables } from '../operator/settings/table/table.ts';
import { DESTINATIONS } from '../operator/destinations/registry.ts';
import { chartFile } from './charts/chart-file.ts';
import { identity, type KubernetesObject, kustomize, objectsOf } from './charts/kustomize.ts';
import { type AddedComponent, operatorChart } from './charts/operator-chart.ts';
import { templateOf } from './charts/slots.ts';

const ROOT = join(import.meta.dirname, '..');

/** Folders of the charts. */
export const CHARTS = join(ROOT, 'charts');

const HEAD =
  'Generated from config/ and crds/ by "npm run generate:charts". Change it there, never here.';

/**
 * Components that change objects of the base, each with the chart value of the same effect.
 * `keep-ledger` is for `kubectl delete -k`: Helm deletes neither the namespace nor the ledger's
 * claim.
 */
export const CHANGING_COMPONENTS: Readonly<Record<string, readonly string[]>> = {
  'keep-ledger': [],
  'larger-volume': ['storage.size=40Gi'],
  replicated: ['replicas=2', 'database=true'],
  'tenant-admin-fallback': ['settings.TENANT_ADMIN_FALLBACK=true'],
  'tenant-kubeconfig-secret': ['settings.TENANT_KUBECONFIG_SECRET=metering-kubeconfig'],
  'tenant-secret-roles': ['components.tenantSecretRoles=true'],
};

/**
 * For the chart of the custom resources. Without the annotation Helm would delete them with their
 * objects.
 */
const KEEP = {
  name: 'keep',
  value:
    'Whether `helm uninstall` leaves the definitions, and with them every custom resource, in the cluster.',
};

/**
 * Returns the generated files of both charts, by their path under charts/. `kubectl` is the
 * program's path. Rejects if the charts cannot reproduce the base or a component.
 */
export async function generateCharts(kubectl: string): Promise<ReadonlyMap<string, string>> {
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    version: string;
  };
  const all = objectsOf(await kustomize(kubectl, 'default'));
  const definitions = all.filter(isDefinition);
  const base = all.filter((object) => !isDefinition(object) && object.kind !== 'Namespace');
  const components = await addedComponents(kubectl, all);
  const replicated = await replicatedObjects(kubectl, all);
  const settings = variables(DESTINATIONS).flatMap(([name, { aliases = [], shown }]) =>
    [name, ...aliases].map((variable) => ({ variable, isCredential: shown === 'masked' })),
  );
  const operator = operatorChart({
    version,
    base,
    components,
    replicated,
    settings,
    head: HEAD,
  });
  return new Map([
    ...[...operator].map(([path, text]) => [`meterfeed/${path}`, text] as const),
    ...[...definitionsChart(version, definitions)].map(
      ([path, text]) => [`meterfeed-crds/${path}`, text] as const,
    ),
  ]);
}

/** A component's name in values.yaml: `networkPolicy` for `network-policy`. */
export function componentFlag(folder: string): string {
  return folder.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function isDefinition({ kind }: KubernetesObject): boolean {
  return kind === 'CustomResourceDefinition';
}

async function addedComponents(
  kubectl: string,
  all: readonly KubernetesObject[],
): Promise<readonly AddedComponent[]> {
  const known = new Map(all.map((object) => [identity(object), JSON.stringify(object)]));
  const folders = (await readdir(join(ROOT, 'config/components'))).toSorted();
  const adding = folders.filter((folder) => !(folder in CHANGING_COMPONENTS));
  return Promise.all(
    adding.map(async (folder) => {
      const objects = objectsOf(await kustomize(kubectl, 'default', [folder]));
      const added = objects.filter(
        (object) => known.get(identity(object)) !== JSON.stringify(object),
      );
      if (objects.length !== all.length + added.length) {
        const fix = 'name the value of the chart that does the same in CHANGING_COMPONENTS';
        throw new Error(`a component that changes the base: "${folder}": ${fix}`);
      }
      const meaning = await meaningOf(folder);
      return { folder, name: componentFlag(folder), meaning, objects: added };
    }),
  );
}

/** Objects that replace the StatefulSet with several replicas. */
async function replicatedObjects(
  kubectl: string,
  all: readonly KubernetesObject[],
): Promise<readonly KubernetesObject[]> {
  const known = new Set(all.map(identity));
  const objects = objectsOf(await kustomize(kubectl, 'default', ['replicated']));
  return objects.filter((object) => !known.has(identity(object)));
}

/** First sentence of a component's opening comment. */
async function meaningOf(folder: string): Promise<string> {
  const file = join(ROOT, 'config/components', folder, 'kustomization.yaml');
  const lines = (await readFile(file, 'utf8')).split('\n');
  const comment = lines.slice(
    0,
    lines.findIndex((line) => !line.startsWith('#')),
  );
  const text = comment.map((line) => line.slice(2)).join(' ');
  return /^.*?\.(?= |$)/.exec(text)?.[0] ?? text;
}

/** Description of a definition for the page of a chart, once for each version. */
function listed({ metadata, spec }: KubernetesObject): readonly Readonly<Record<string, string>>[] {
  const { names, versions } = spec as {
    readonly names: { readonly kind: string };
    readonly versions: readonly {
      readonly name: string;
      readonly schema: { readonly openAPIV3Schema: { readonly description: string } };
    }[];
  };
  return versions.map(({ name, schema }) => ({
    kind: names.kind,
    version: name,
    name: metadata.name,
    displayName: names.kind,
    description: schema.openAPIV3Schema.description.trim(),
  }));
}

function definitionsChart(
  version: string,
  definitions: readonly KubernetesObject[],
): ReadonlyMap<string, string> {
  const chart = chartFile({
    name: 'meterfeed-crds',
    description: 'The custom resources of meterfeed, to be installed and upgraded before it',
    version,
    appVersion: version,
    annotations: { 'artifacthub.io/crds': stringify(definitions.flatMap(listed)) },
  });
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    additionalProperties: false,
    properties: {
      [KEEP.name]: { description: KEEP.value, type: 'boolean' },
      global: { type: 'object' },
    },
  };
  const stored = (text: string): string =>
    text.replace(
      /^ {2}annotations:\n/m,
      (line) =>
        `${line}    {{- if .Values.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}\n`,
    );
  return new Map([
    ['Chart.yaml', `# ${HEAD}\n${chart}`],
    ['values.yaml', `# ${HEAD}\n\n# ${KEEP.value}\n${stringify({ [KEEP.name]: true })}`],
    ['values.schema.json', `${JSON.stringify(schema, null, 2)}\n`],
    ...definitions.map((definition): readonly [string, string] => [
      `templates/${definition.metadata.name.split('.')[0]}.yaml`,
      `{{- /* ${HEAD} */}}\n${stored(templateOf([definition]))}`,
    ]),
  ]);
}

if (import.meta.main) {
  const { kubectl } = await findBinaries({
    assets: process.env['KUBEBUILDER_ASSETS'],
    progress: (line) => console.error(`[control plane] ${line}`),
  });
  const files = await generateCharts(kubectl);
  for (const chart of ['meterfeed', 'meterfeed-crds']) {
    const templates = join(CHARTS, chart, 'templates');
    for (const name of await readdir(templates)) {
      if (name.endsWith('.yaml')) await rm(join(templates, name));
    }
  }
  for (const [path, text] of files) {
    await mkdir(dirname(join(CHARTS, path)), { recursive: true });
    await writeFile(join(CHARTS, path), text);
  }
}
