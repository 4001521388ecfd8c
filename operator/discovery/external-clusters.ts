import type { Parsed, Parser } from '../settings/parsers/parser.ts';
import { matching, text } from '../settings/parsers/scalars.ts';
import { absolutePath } from '../settings/parsers/scalars.ts';
import { quote } from '../model/quote.ts';
import { readStrictYaml, type YamlMap, type YamlNode } from '../settings/strict-yaml.ts';
import { type CustomerIdKeys, type MetadataValues, parseMetadata } from './metadata.ts';

/**
 * A tenant cluster with its control plane elsewhere, as described in TENANT_CLUSTERS_FILE
 * (docs/how-to/private-nodes.md#external-tenant-clusters).
 */
export interface ExternalCluster {
  readonly name: string;
  /** Path of a mounted kubeconfig. */
  readonly kubeconfig: string;
  readonly tenant?: string;
  readonly displayName?: string;
  readonly project?: string;
  /** Billing details, by metadata key. */
  readonly metadata: MetadataValues;
}

export type ParsedExternalClusters =
  | { readonly kind: 'clusters'; readonly clusters: readonly ExternalCluster[] }
  /** All problems, each as `line 3: name: what: "input"; fix`. */
  | { readonly kind: 'invalid'; readonly problems: readonly string[] };

export const MOST_FILE_BYTES = 256 * 1024;

/** The name is part of the id `external-<name>` (docs/explanation/discovery.md#ids). */
const NAME = matching(
  /^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$/,
  'a name',
  'not a name',
  'use lower case letters, digits, - and ., at most 63',
);

const FIELDS = {
  name: NAME,
  kubeconfig: absolutePath(),
  tenant: text(128),
  displayName: text(256),
  project: text(256),
} as const satisfies Record<string, Parser<string>>;

type Field = keyof typeof FIELDS;
const REQUIRED: readonly Field[] = ['name', 'kubeconfig'];

/** Parses the complete list or nothing: a list with one bad entry is not what its author meant. */
export function parseExternalClusters(
  content: string,
  customerIdKeys: CustomerIdKeys,
): ParsedExternalClusters {
  const yaml = readStrictYaml(content, MOST_FILE_BYTES);
  if (yaml.kind === 'invalid') return yaml;
  const { root } = yaml;
  if (root.kind !== 'list') {
    return { kind: 'invalid', problems: ['line 1: not a list; begin each entry with "- name:"'] };
  }
  const problems: string[] = [];
  const clusters: ExternalCluster[] = [];
  const names = new Set<string>();
  for (const item of root.items) {
    const cluster = parseEntry(item, customerIdKeys, problems);
    if (cluster === undefined) continue;
    if (names.has(cluster.name)) {
      problems.push(
        `line ${item.line}: name: given twice: ${quote(cluster.name)}; give each a different name`,
      );
    }
    names.add(cluster.name);
    clusters.push(cluster);
  }
  return problems.length > 0 ? { kind: 'invalid', problems } : { kind: 'clusters', clusters };
}

function parseEntry(
  item: YamlNode,
  customerIdKeys: CustomerIdKeys,
  problems: string[],
): ExternalCluster | undefined {
  if (item.kind !== 'map') {
    problems.push(`line ${item.line}: not an entry; give name, kubeconfig and the other fields`);
    return undefined;
  }
  const before = problems.length;
  const values: Partial<Record<Field, string>> = {};
  for (const [field, node] of item.entries) {
    if (field === 'metadata') continue;
    if (!isField(field)) {
      const known = [...Object.keys(FIELDS), 'metadata'].join(', ');
      problems.push(`line ${node.line}: unknown field: ${quote(field)}; use ${known}`);
      continue;
    }
    const parsed = parseText(field, node, FIELDS[field], problems);
    if (parsed !== undefined) values[field] = parsed;
  }
  for (const field of REQUIRED) {
    if (!item.entries.has(field))
      problems.push(`line ${item.line}: ${field}: missing; it is required`);
  }
  const metadata = parseMetadataFields(item, customerIdKeys, problems);
  const { name, kubeconfig, tenant, displayName, project } = values;
  if (problems.length > before || name === undefined || kubeconfig === undefined) return undefined;
  return { name, kubeconfig, tenant, displayName, project, metadata };
}

function isField(field: string): field is Field {
  return Object.hasOwn(FIELDS, field);
}

function parseText(
  field: string,
  node: YamlNode,
  parser: Parser<string>,
  problems: string[],
): string | undefined {
  if (node.kind !== 'text') {
    problems.push(`line ${node.line}: ${field}: not text; give ${parser.accepts}`);
    return undefined;
  }
  const parsed = parser.parse(node.text.trim());
  if (parsed.kind === 'value') return parsed.value;
  problems.push(problemLine(node.line, field, parsed, node.text));
  return undefined;
}

function parseMetadataFields(
  item: YamlMap,
  customerIdKeys: CustomerIdKeys,
  problems: string[],
): MetadataValues {
  const node = item.entries.get('metadata');
  if (node === undefined) return {};
  if (node.kind !== 'map') {
    problems.push(`line ${node.line}: metadata: not a map; give keys and their values`);
    return {};
  }
  const values: Record<string, unknown> = {};
  for (const [key, value] of node.entries) {
    const field = `metadata.${key}`;
    const parsed = parseMetadata(
      key,
      value.kind === 'text' ? value.text.trim() : undefined,
      customerIdKeys,
    );
    if (parsed.kind === 'value') values[key] = parsed.value;
    else
      problems.push(
        problemLine(value.line, field, parsed, value.kind === 'text' ? value.text : ''),
      );
  }
  // Each value comes from the parser of its own key.
  return values as MetadataValues;
}

function problemLine(
  line: number,
  field: string,
  problem: Exclude<Parsed<unknown>, { kind: 'value' }>,
  input: string,
): string {
  return `line ${line}: ${field}: ${problem.what}: ${quote(problem.input ?? input)}; ${problem.fix}`;
}
