import { isRecord } from '../../operator/model/is-record.ts';
import { chartFile } from './chart-file.ts';
import { type BaseDefaults, chartValues, valuesFile, valuesSchema } from './chart-values.ts';
import { identity, type KubernetesObject } from './kustomize.ts';
import { inline, optional, templateOf, yaml } from './slots.ts';

/** The namespace in config/. The chart replaces it with that of the release. */
const NAMESPACE = 'meterfeed-system';

const COMPONENT_FLAG = 'tenantSecretRoles';

/** A component of config/components/ that only adds objects. */
export interface AddedComponent {
  readonly folder: string;
  /** Its name in values.yaml: `networkPolicy`. */
  readonly name: string;
  readonly meaning: string;
  readonly objects: readonly KubernetesObject[];
}

export interface OperatorChartParts {
  /** Version of the chart, and of the application unless the base names another. */
  readonly version: string;
  /** Output of `kubectl kustomize` for the base, without the namespace and the custom resources. */
  readonly base: readonly KubernetesObject[];
  readonly components: readonly AddedComponent[];
  /** Objects that replace the StatefulSet with several replicas. */
  readonly replicated: readonly KubernetesObject[];
  /** Every variable that the operator reads. */
  readonly settings: readonly { readonly variable: string; readonly isCredential: boolean }[];
  /** First line of every file. */
  readonly head: string;
}

type Path = readonly (string | number)[];

/** Returns the generated files of the operator's chart, by their path in it. */
export function operatorChart(parts: OperatorChartParts): ReadonlyMap<string, string> {
  const { version, base, components, replicated, settings, head } = parts;
  const image = read(find(base, 'StatefulSet meterfeed-system/meterfeed'), IMAGE);
  const [repository = '', appVersion = ''] = String(image).split(':');
  const variables = settings.map(({ variable }) => variable);
  const credentials = settings.flatMap((one) => (one.isCredential ? one.variable : []));
  const values = chartValues(defaultsOf(base, repository, components), variables);
  const chart = chartFile({
    name: 'meterfeed',
    description: 'Meters what tenant clusters use and feeds it to billing systems',
    version,
    appVersion,
    keywords: ['metering', 'billing', 'usage', 'vcluster', 'gpu', 'multi-tenancy'],
  });
  const isStateful = ({ kind }: KubernetesObject): boolean => kind === 'StatefulSet';
  const isRight = ({ kind }: KubernetesObject): boolean => /Role|ServiceAccount/.test(kind);
  const comment = `{{- /* ${head} */}}\n`;
  return new Map([
    ['Chart.yaml', `# ${head}\n${chart}`],
    ['values.yaml', valuesFile(values, head)],
    ['values.schema.json', valuesSchema(values)],
    ['templates/_credentials.tpl', comment + credentialsTemplate(credentials)],
    ['templates/rbac.yaml', comment + rights(base.filter(isRight))],
    [
      'templates/operator.yaml',
      comment +
        templateOf(
          base.filter((object) => !isRight(object) && !isStateful(object)).map(withPlaces),
        ) +
        `{{- if gt (int .Values.replicas) 1 }}\n${NEEDS_DATABASE}${templateOf(replicated.map(withPlaces))}{{- else }}\n` +
        `${templateOf(base.filter(isStateful).map(withPlaces))}{{- end }}\n`,
    ],
    ...components.map(({ folder, name, objects }): readonly [string, string] => [
      `templates/component-${folder}.yaml`,
      `${comment}{{- if .Values.components.${name} }}\n${templateOf(objects.map(withPlaces))}{{- end }}\n`,
    ]),
  ]);
}

/** Helm cannot read the Secret with LEDGER_URL. */
const NEEDS_DATABASE = `{{- if not .Values.database }}
{{- fail "replicas: more than one needs a ledger in PostgreSQL: put LEDGER_URL into the Secret \\"meterfeed\\" and set database=true" }}
{{- end }}
`;

const CONTAINER: Path = ['spec', 'template', 'spec', 'containers', 0];
const IMAGE: Path = [...CONTAINER, 'image'];
const CLAIM: Path = ['spec', 'volumeClaimTemplates', 0, 'spec'];
const EPHEMERAL = 'ephemeral-storage';
const STORAGE: Path = [...CLAIM, 'resources', 'requests', 'storage'];

function defaultsOf(
  base: readonly KubernetesObject[],
  repository: string,
  components: readonly AddedComponent[],
): BaseDefaults {
  const operator = find(base, 'StatefulSet meterfeed-system/meterfeed');
  const settings = base.find(({ kind }) => kind === 'ConfigMap');
  return {
    repository,
    pullPolicy: read(operator, [...CONTAINER, 'imagePullPolicy']),
    settings: read(settings, ['data']),
    resources: read(operator, [...CONTAINER, 'resources']),
    nodeOptions: read(operator, nodeOptions(operator)),
    storageSize: read(operator, STORAGE),
    components: [
      ...components.map(({ name, meaning }) => [name, meaning] as const),
      [
        COMPONENT_FLAG,
        'kubeconfigs of tenants are read by a Role in each namespace, which you bind, instead of everywhere.',
      ],
    ],
  };
}

/** RBAC, with the cluster-wide right to read tenant kubeconfigs as an option. */
function rights(objects: readonly KubernetesObject[]): string {
  const name = 'meterfeed-tenant-kubeconfigs';
  const isGivenUp = ({ kind, metadata }: KubernetesObject): boolean =>
    kind === 'ClusterRoleBinding' && metadata.name === name;
  const stored = objects.filter((object) => !isGivenUp(object)).map(withPlaces);
  const givenUp = templateOf(objects.filter(isGivenUp).map(withPlaces));
  return `${templateOf(stored)}{{- if not .Values.components.${COMPONENT_FLAG} }}\n${givenUp}{{- end }}\n`;
}

/** Replaces the parts of an object that Helm fills in with slots. */
function withPlaces(object: KubernetesObject): KubernetesObject {
  const placed = inNamespaceOfRelease(object);
  switch (identity(object).replace(/-[a-z0-9]{10}$/, '')) {
    case 'StatefulSet meterfeed-system/meterfeed':
      return asObject([...operatorPlaces(object), ...claimPlaces()].reduce(put, placed));
    case 'Deployment meterfeed-system/meterfeed':
      return asObject([...operatorPlaces(object), REPLICAS_PLACE].reduce(put, placed));
    case 'Service meterfeed-system/meterfeed':
      return asObject([servicePlace(object)].reduce(put, placed));
    case 'ConfigMap meterfeed-system/meterfeed-settings':
      return asObject(SETTINGS_PLACES.reduce(put, placed));
    case 'ClusterRole meterfeed-tenant-kubeconfigs':
      return asObject(kubeconfigPlaces(object).reduce(put, placed));
    default:
      return placed;
  }
}

type Place = readonly [path: Path, template: unknown];

const SETTINGS_PLACES: readonly Place[] = [
  [['metadata', 'name'], inline('{{ include "meterfeed.settingsName" . }}')],
  [['data'], yaml('include "meterfeed.settings" . | fromJson')],
];

function operatorPlaces(operator: KubernetesObject): readonly Place[] {
  const pod: Path = ['spec', 'template', 'spec'];
  const metadata: Path = ['spec', 'template', 'metadata'];
  const extended = (path: Path, value: string): Place => [
    path,
    yaml(`merge (fromJson \`${JSON.stringify(read(operator, path))}\`) .Values.${value}`),
  ];
  return [
    extended([...metadata, 'annotations'], 'podAnnotations'),
    extended([...metadata, 'labels'], 'podLabels'),
    [IMAGE, inline('{{ include "meterfeed.image" . | quote }}')],
    [[...CONTAINER, 'imagePullPolicy'], inline('{{ .Values.image.pullPolicy }}')],
    [[...CONTAINER, 'resources'], yaml(resourcesOf(operator))],
    [nodeOptions(operator), inline('{{ .Values.nodeOptions | quote }}')],
    [
      [...CONTAINER, 'envFrom', 0, 'configMapRef', 'name'],
      inline('{{ include "meterfeed.settingsName" . }}'),
    ],
    ...['imagePullSecrets', 'nodeSelector', 'tolerations', 'affinity', 'priorityClassName'].map(
      (name): Place => [[...pod, name], optional(`.Values.${name}`)],
    ),
  ];
}

function claimPlaces(): readonly Place[] {
  return [
    [STORAGE, inline('{{ include "meterfeed.storageSize" . }}')],
    [[...CLAIM, 'storageClassName'], optional('include "meterfeed.storageClass" .')],
  ];
}

/** With several replicas the Service selects the leader, as in the component `replicated`. */
function servicePlace(service: KubernetesObject): Place {
  const path: Path = ['spec', 'selector'];
  const every = JSON.stringify(read(service, path));
  const leader = '(dict "meterfeed.io/role" "leader")';
  return [
    path,
    yaml(`gt (int .Values.replicas) 1 | ternary ${leader} dict | merge (fromJson \`${every}\`)`),
  ];
}

const REPLICAS_PLACE: Place = [['spec', 'replicas'], inline('{{ int .Values.replicas }}')];

/**
 * The settings and the rights name the same Secret. Bound by namespace, the role needs one more
 * verb.
 */
function kubeconfigPlaces(role: KubernetesObject): readonly Place[] {
  const names: Path = ['rules', 0, 'resourceNames', 0];
  const verbs: Path = ['rules', 0, 'verbs'];
  const given = JSON.stringify(read(role, verbs));
  const byDefault = String(read(role, names));
  return [
    [names, inline(`{{ .Values.settings.TENANT_KUBECONFIG_SECRET | default "${byDefault}" }}`)],
    [
      verbs,
      yaml(
        `.Values.components.${COMPONENT_FLAG} | ternary (append (fromJsonArray \`${given}\`) "get") (fromJsonArray \`${given}\`)`,
      ),
    ],
  ];
}

/**
 * Resources of the values. Without a volume the data directory uses the node's storage, which then
 * needs a request too.
 */
function resourcesOf(operator: KubernetesObject): string {
  if (operator.kind === 'StatefulSet') return '.Values.resources';
  const storage = ['limits', 'requests'].map((name) => {
    const text = read(operator, [...CONTAINER, 'resources', name, EPHEMERAL]);
    return [name, { [EPHEMERAL]: text }];
  });
  const given = JSON.stringify(Object.fromEntries(storage));
  return `mergeOverwrite (deepCopy .Values.resources) (fromJson \`${given}\`)`;
}

function nodeOptions(operator: KubernetesObject): Path {
  const env = read(operator, [...CONTAINER, 'env']);
  const index = Array.isArray(env)
    ? env.findIndex((one) => isRecord(one) && one['name'] === 'NODE_OPTIONS')
    : -1;
  if (index < 0) throw new Error('StatefulSet: env: no "NODE_OPTIONS"');
  return [...CONTAINER, 'env', index, 'value'];
}

function credentialsTemplate(names: readonly string[]): string {
  return `{{- define "meterfeed.credentials" -}}\n${JSON.stringify(names)}\n{{- end }}\n`;
}

function inNamespaceOfRelease(object: KubernetesObject): KubernetesObject {
  const text = JSON.stringify(object, (key, value: unknown) =>
    key === 'namespace' && value === NAMESPACE ? inline('{{ .Release.Namespace }}') : value,
  );
  if (text.includes(NAMESPACE)) {
    throw new Error(`${identity(object)}: names "${NAMESPACE}" outside of a field "namespace"`);
  }
  return asObject(JSON.parse(text));
}

/** Returns a copy with one value replaced. The path to it must exist. */
function put(value: unknown, [path, filled]: Place): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return filled;
  const next = (child: unknown): unknown => put(child, [rest, filled]);
  if (Array.isArray(value) && typeof key === 'number') {
    return value.map((child: unknown, index) => (index === key ? next(child) : child));
  }
  if (isRecord(value)) return { ...value, [key]: next(value[key]) };
  throw new Error(`no such place in the base: "${path.join('.')}"`);
}

function read(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((part, key) => {
    if (Array.isArray(part)) return part[Number(key)];
    if (isRecord(part)) return part[key];
    throw new Error(`no such place in the base: "${path.join('.')}"`);
  }, value);
}

function find(objects: readonly KubernetesObject[], wanted: string): KubernetesObject {
  const found = objects.find((object) => identity(object) === wanted);
  if (found === undefined) throw new Error(`not in the base: "${wanted}"`);
  return found;
}

function asObject(value: unknown): KubernetesObject {
  return value as KubernetesObject;
}
