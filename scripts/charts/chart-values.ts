import { stringify } from 'yaml';

/** One top-level value of the chart. */
export interface ChartValue {
  readonly name: string;
  /** Comment lines for values.yaml, and the description in the schema. */
  readonly meaning: string;
  readonly value: unknown;
  /** JSON Schema of the value (draft 7). */
  readonly schema: object;
}

/** Value in the base, which becomes the chart's default. */
export interface BaseDefaults {
  readonly repository: string;
  readonly pullPolicy: unknown;
  readonly settings: unknown;
  readonly resources: unknown;
  readonly nodeOptions: unknown;
  readonly storageSize: unknown;
  /** Switches of config/components/, with a description of each. */
  readonly components: readonly (readonly [name: string, meaning: string])[];
}

const TEXT = { type: 'string' };
const OBJECT = { type: 'object' };
const TEXTS = { type: 'object', additionalProperties: TEXT };
const OBJECTS = { type: 'array', items: OBJECT };

/** Variables of the runtime. The operator itself does not read them. */
const RUNTIME = '^(NODE_|TZ$|SSL_CERT_)';

/** All values in the order of values.yaml. `variables` are those that the operator reads. */
export function chartValues(
  base: BaseDefaults,
  variables: readonly string[],
): readonly ChartValue[] {
  return [
    {
      name: 'image',
      meaning:
        'The image. Without a tag it is the version of the application; a digest wins over both.',
      value: { repository: base.repository, tag: '', digest: '', pullPolicy: base.pullPolicy },
      schema: closed({
        repository: { type: 'string', minLength: 1 },
        tag: TEXT,
        digest: { type: 'string', pattern: '^(sha256:[0-9a-f]{64})?$' },
        pullPolicy: { enum: ['Always', 'IfNotPresent', 'Never'] },
      }),
    },
    {
      name: 'imagePullSecrets',
      meaning: 'Secrets for a private registry: [{ name: … }].',
      value: [],
      schema: OBJECTS,
    },
    {
      name: 'settings',
      meaning:
        'Environment variables of docs/reference/configuration.md, as text. A change restarts the operator. Credentials do not belong\nhere: create the Secret `meterfeed` in the namespace of the release, whose keys are read as variables.',
      value: base.settings,
      schema: {
        type: 'object',
        propertyNames: { anyOf: [{ enum: variables }, { pattern: RUNTIME }] },
        additionalProperties: { type: ['string', 'boolean'] },
      },
    },
    {
      name: 'components',
      meaning: [
        'What can be added, as config/components/ has it:',
        ...base.components.map(([name, meaning]) => `${name}: ${meaning}`),
      ].join('\n'),
      value: Object.fromEntries(base.components.map(([name]) => [name, false])),
      schema: closed(
        Object.fromEntries(base.components.map(([name]) => [name, { type: 'boolean' }])),
      ),
    },
    {
      name: 'replicas',
      meaning:
        'With more than one they are a Deployment: one meters, another one takes over, all feed and answer. Their ledger has to be in\nPostgreSQL (LEDGER_URL in the Secret `meterfeed`; docs/how-to/postgresql.md#two-pods).',
      value: 1,
      schema: { type: 'integer', minimum: 1 },
    },
    {
      name: 'database',
      meaning:
        'Whether the ledger is in PostgreSQL: then the Secret `meterfeed` has LEDGER_URL. More than one replica needs it.',
      value: false,
      schema: { type: 'boolean' },
    },
    {
      name: 'storage',
      meaning:
        "The volume of the ledger. Both are chosen at the first installation: an upgrade keeps what the StatefulSet has\n(docs/how-to/upgrade.md#a-larger-volume). Without a class it is the cluster's default one.",
      value: { size: base.storageSize, storageClassName: '' },
      schema: closed({
        size: { type: 'string', pattern: '^[1-9][0-9]*(Mi|Gi|Ti)$' },
        storageClassName: TEXT,
      }),
    },
    {
      name: 'resources',
      meaning:
        'No CPU limit: a throttled process closes its windows late. With more memory, raise nodeOptions too.',
      value: base.resources,
      schema: closed({ requests: OBJECT, limits: OBJECT }),
    },
    {
      name: 'nodeOptions',
      meaning:
        'Somewhat more than half of the memory limit, in MiB; the rest is for new objects, the ledger and buffers.',
      value: base.nodeOptions,
      schema: TEXT,
    },
    {
      name: 'podAnnotations',
      meaning: 'Further annotations of the pod.',
      value: {},
      schema: TEXTS,
    },
    { name: 'podLabels', meaning: 'Further labels of the pod.', value: {}, schema: TEXTS },
    { name: 'nodeSelector', meaning: 'Where the pod runs.', value: {}, schema: TEXTS },
    { name: 'tolerations', meaning: 'Taints that it tolerates.', value: [], schema: OBJECTS },
    { name: 'affinity', meaning: 'Affinity of the pod.', value: {}, schema: OBJECT },
    { name: 'priorityClassName', meaning: 'Its priority class.', value: '', schema: TEXT },
  ];
}

/** Returns the text of values.yaml. */
export function valuesFile(values: readonly ChartValue[], head: string): string {
  const parts = values.map(({ name, meaning, value }) => {
    const comment = meaning.split('\n').map((line) => `# ${line}`);
    return `${comment.join('\n')}\n${stringify({ [name]: value }, { lineWidth: 0 })}`;
  });
  return [`# ${head}\n`, ...parts].join('\n');
}

/** Returns the text of values.schema.json. It refuses unknown values except Helm's own `global`. */
export function valuesSchema(values: readonly ChartValue[]): string {
  const properties = values.map(({ name, meaning, schema }) => [
    name,
    { description: meaning.replaceAll('\n', ' '), ...schema },
  ]);
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...closed({ ...Object.fromEntries(properties), global: OBJECT }),
  };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

function closed(properties: Readonly<Record<string, object>>): object {
  return { type: 'object', additionalProperties: false, properties };
}
