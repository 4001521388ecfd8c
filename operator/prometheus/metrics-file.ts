import { quote } from '../model/quote.ts';
import { isNamePlaceholder, readQueryTemplate } from '../settings/query-template.ts';
import { readStrictYaml, type YamlMap, type YamlNode } from '../settings/strict-yaml.ts';
import { BUILT_IN_METRICS } from '../model/catalog.ts';
import { RESERVED_KEYS } from '../model/event-schema.ts';
import type { ConfiguredMetric } from './configured-metric.ts';

export type ReadMetricsFile =
  | { readonly kind: 'metrics'; readonly metrics: readonly ConfiguredMetric[] }
  /** All problems: `PROMETHEUS_METRICS_FILE: line 3: code: what is wrong: "input"; fix`. */
  | { readonly kind: 'invalid'; readonly problems: readonly string[] };

const MOST_BYTES = 256 * 1024;
const MOST_METRICS = 100;
const MOST_DIMENSIONS = 16;
const MOST_PROBLEMS = 50;

const DECLARED = 'in CUSTOM_METRICS or spec.customMetrics';
const CODE = /^[a-z][a-z0-9_]{0,99}$/;
const LABEL = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const PLAIN = /^[^\p{Cc}\p{Cs}\u2028\u2029]+$/u;

const FIELDS = [
  'code',
  'name',
  'unit',
  'description',
  'billable',
  'query',
  'dimensions',
  'sku',
  'tenantLabel',
] as const;
type Field = (typeof FIELDS)[number];

/** Limits of texts, in characters. */
const LONGEST = { name: 128, unit: 64, description: 512, query: 8_192 } as const;

const QUERY_FOR_ALL =
  'write one query for all tenants, such as sum by (tenant, model) (increase(tokens_total[{{window}}]))';

/** Dimensions of every event, set by the operator. */
const OPERATOR_KEYS = new Set(['tenant_cluster', 'tenant_class']);
const RESERVED = new Set<string>(RESERVED_KEYS);
const BUILT_IN = new Set(BUILT_IN_METRICS.map(({ code }) => code));

/** Notes a problem of a field. Returns undefined in place of the value. */
type Refuse = (line: number, where: string, what: string, fix: string, input?: string) => undefined;

/**
 * Parses the text of PROMETHEUS_METRICS_FILE (docs/explanation/prometheus.md#metrics-of-your-own).
 * `taken` has the codes of CUSTOM_METRICS: two metrics with one code would be billed as one.
 */
export function readMetricsFile(text: string, taken: ReadonlySet<string>): ReadMetricsFile {
  const yaml = readStrictYaml(text, MOST_BYTES);
  if (yaml.kind === 'invalid') return invalid(yaml.problems);
  const problems: string[] = [];
  const refuse: Refuse = (line, where, what, fix, input) => {
    const quoted = input === undefined ? '' : `: ${quote(input)}`;
    problems.push(`line ${line}: ${where}: ${what}${quoted}; ${fix}`);
    return undefined;
  };
  const metrics = readList(yaml.root, refuse);
  const lines = new Map<string, number>();
  for (const { line, metric } of metrics) {
    const { code } = metric;
    const first = lines.get(code);
    if (first !== undefined) refuse(line, 'code', `in line ${first} already`, 'name it once', code);
    else if (taken.has(code)) refuse(line, 'code', DECLARED, 'choose another', code);
    else lines.set(code, line);
  }
  if (problems.length > 0) return invalid(problems);
  return { kind: 'metrics', metrics: metrics.map(({ metric }) => metric) };
}

function invalid(problems: readonly string[]): ReadMetricsFile {
  const shown = problems.slice(0, MOST_PROBLEMS);
  return { kind: 'invalid', problems: shown.map((text) => `PROMETHEUS_METRICS_FILE: ${text}`) };
}

function readList(
  root: YamlNode,
  refuse: Refuse,
): readonly {
  readonly line: number;
  readonly metric: ConfiguredMetric;
}[] {
  if (root.kind === 'text' && root.text.trim() === '') return [];
  if (root.kind !== 'list') {
    refuse(root.line, 'file', 'not a list of metrics', 'begin each metric with "- code: …"');
    return [];
  }
  if (root.items.length > MOST_METRICS) {
    refuse(root.line, 'file', `${root.items.length} metrics`, `at most ${MOST_METRICS}`);
    return [];
  }
  return root.items.flatMap((item) => {
    if (item.kind !== 'map') {
      refuse(item.line, 'metric', 'not a map of fields', 'write "code: …", "query: …" and so on');
      return [];
    }
    const metric = readMetric(item, refuse);
    return metric === undefined
      ? []
      : [{ line: item.entries.get('code')?.line ?? item.line, metric }];
  });
}

function readMetric(map: YamlMap, refuse: Refuse): ConfiguredMetric | undefined {
  for (const [field, node] of map.entries) {
    if ((FIELDS as readonly string[]).includes(field)) continue;
    refuse(node.line, 'metric', 'unknown field', `use ${FIELDS.join(', ')}`, field);
  }
  const code = readCode(map, refuse);
  const query = readQuery(map, refuse);
  const unit = readText(map, 'unit', refuse, 'units');
  const name = readText(map, 'name', refuse, code ?? '');
  const description = readText(
    map,
    'description',
    refuse,
    'Measured by a query of PROMETHEUS_METRICS_FILE',
  );
  const billable = readBoolean(map, 'billable', refuse);
  const dimensions = readDimensions(map, refuse);
  const sku = readOneLabel(map, 'sku', refuse);
  const tenantLabel = readOneLabel(map, 'tenantLabel', refuse);
  if (code === undefined || query === undefined || unit === undefined) return undefined;
  if (name === undefined || description === undefined) return undefined;
  if (billable === undefined || dimensions === undefined) return undefined;
  return {
    code,
    name,
    unit,
    description,
    billable,
    query,
    dimensions,
    sku,
    tenantLabel,
  };
}

function readCode(map: YamlMap, refuse: Refuse): string | undefined {
  const node = map.entries.get('code');
  if (node === undefined) return refuse(map.line, 'code', 'missing', 'give the metric a code');
  const fix = 'begin with a small letter; use a-z, 0-9 and _, at most 100';
  const text = node.kind === 'text' ? node.text : undefined;
  if (text === undefined || !CODE.test(text)) {
    return refuse(node.line, 'code', 'not a metric code', fix, text);
  }
  if (!BUILT_IN.has(text)) return text;
  return refuse(node.line, 'code', 'a built-in metric', 'choose another', text);
}

function readQuery(map: YamlMap, refuse: Refuse): string | undefined {
  if (!map.entries.has('query')) {
    return refuse(map.line, 'query', 'missing', 'give a PromQL query');
  }
  const query = readText(map, 'query', refuse, '', /\S/);
  if (query === undefined) return undefined;
  const template = readQueryTemplate(query);
  const { line } = map.entries.get('query') ?? map;
  if (template.kind === 'problem') {
    return refuse(line, 'query', template.what, template.fix, template.input);
  }
  const name = template.segments.find(isNamePlaceholder)?.name;
  if (name === undefined || !map.entries.has('tenantLabel')) return query;
  return refuse(line, 'query', 'a name beside tenantLabel', QUERY_FOR_ALL, `{{${name}}}`);
}

function readText(
  map: YamlMap,
  field: keyof typeof LONGEST,
  refuse: Refuse,
  otherwise: string,
  form = PLAIN,
): string | undefined {
  const node = map.entries.get(field);
  if (node === undefined) return otherwise;
  if (node.kind !== 'text') return refuse(node.line, field, 'not a text', 'write it on one line');
  const text = node.text.trim();
  if (text.length > LONGEST[field]) {
    return refuse(node.line, field, `longer than ${LONGEST[field]} characters`, 'shorten it');
  }
  if (form.test(text)) return text;
  return refuse(node.line, field, 'empty, or with control characters', 'write it out', node.text);
}

function readBoolean(map: YamlMap, field: Field, refuse: Refuse): boolean | undefined {
  const node = map.entries.get(field);
  if (node === undefined) return true;
  const text = node.kind === 'text' ? node.text : undefined;
  if (text === 'true' || text === 'false') return text === 'true';
  return refuse(node.line, field, 'not a boolean', 'write true or false', text);
}

function readOneLabel(
  map: YamlMap,
  field: 'sku' | 'tenantLabel',
  refuse: Refuse,
): string | undefined {
  const node = map.entries.get(field);
  return node === undefined ? undefined : readLabel(node, field, refuse);
}

function readLabel(node: YamlNode, field: Field, refuse: Refuse): string | undefined {
  const text = node.kind === 'text' ? node.text : undefined;
  if (text !== undefined && LABEL.test(text)) return text;
  return refuse(
    node.line,
    field,
    'not a label name',
    'name a label of the result, such as model_name',
    text,
  );
}

function readDimensions(map: YamlMap, refuse: Refuse): ConfiguredMetric['dimensions'] | undefined {
  const node = map.entries.get('dimensions');
  if (node === undefined) return [];
  if (node.kind !== 'list') {
    return refuse(
      node.line,
      'dimensions',
      'not a list',
      'list labels of the result: [label, label]',
    );
  }
  if (node.items.length > MOST_DIMENSIONS) {
    const what = `${node.items.length} labels`;
    return refuse(node.line, 'dimensions', what, `at most ${MOST_DIMENSIONS}`);
  }
  const labelOf = new Map<string, string>();
  for (const item of node.items) {
    const label = readLabel(item, 'dimensions', refuse);
    if (label === undefined) continue;
    const key = dimensionKey(label);
    const twice = labelOf.get(key);
    if (RESERVED.has(key) || OPERATOR_KEYS.has(key)) {
      refuse(item.line, 'dimensions', `"${key}" is set by the operator`, 'rename the label', label);
    } else if (twice !== undefined) {
      refuse(item.line, 'dimensions', `the same key as "${twice}"`, 'name it once', label);
    } else {
      labelOf.set(key, label);
    }
  }
  return [...labelOf].map(([key, label]) => ({ key, label }));
}

const LONGEST_KEY = 64;

/**
 * The dimension key of a label: `modelName` becomes `model_name`, `GPU_I_PROFILE` becomes
 * `gpu_i_profile`, `_x` becomes `l_x`.
 */
export function dimensionKey(label: string): string {
  const snake = label
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replaceAll(/([A-Z]+)([A-Z][a-z])/g, '$1_$2')
    .toLowerCase();
  const begun = /^[a-z]/.test(snake) ? snake : `l_${snake.replace(/^_+/, '')}`;
  return begun.slice(0, LONGEST_KEY);
}
